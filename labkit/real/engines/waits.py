"""Waiting for MPI in a way that an interrupt can end, on an engine that has to live on afterwards.

A rank that is blocked inside the C library hears nothing. So every blocking call is made as its nonblocking
twin, and the waiting is done here: test a few times, then give way to other processes between the
tests, then sleep. The signal handler of the engine only sets `WAITING.stop` while code of this package runs,
and the loop raises: a request is never lost between two lines, and what is still pending keeps its buffers.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mpi4py import MPI as MPI4PY

from labkit.comm.surface import REQUESTS, Method, add_methods, over
from labkit.real.mpi.waits import COLLECTIVE, OTHER, PROBE, RECV, SEND
from labkit.real.mpi.waits_page import FINISHED, CommRow, Entry, Page, load_library, open_page

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = [
    "WAITING",
    "Aborted",
    "Interrupted",
    "Message",
    "PersistentRequest",
    "Probed",
    "Request",
    "WaitPage",
    "disown",
    "finish",
    "keep",
    "until",
]


# Notes of an engine's waits where the client can read them: the page of `labkit.real.mpi.waits`.
#
# An engine's blocking calls are nonblocking ones and tests, so the library notes what has been begun, and not
# that anybody waits for it. That is written here, once a wait has lasted `NOTE_S`.


#: how long a wait is nobody's business
NOTE_S = 0.3
_NAMES = {SEND: "Send", RECV: "Recv", PROBE: "Mprobe", OTHER: "Wait"}


class Probed:
    """A wait for a message that nobody has begun to receive."""

    def __init__(self, comm: Intracomm, source: int, tag: int) -> None:
        self.comm, self.source, self.tag = comm, source, tag


class WaitPage:
    """The page of the engine that this process is; see `open`."""

    def __init__(self, mpi: ModuleType, path: str, memory: mmap.mmap) -> None:
        self._mpi, self.path = mpi, path
        self._page = Page.from_buffer(memory)
        for place, name in enumerate(bytes(one).split(b"\0")[0] for one in self._page.names):
            if name.startswith(b"I"):  # an engine begins all collectives, and waits: both forms are one here
                self._page.names[place].value = name[1:].capitalize()
        self._numbers = {bytes(one).split(b"\0")[0].decode(): n for n, one in enumerate(self._page.names)}
        self._threads = threading.active_count()
        #: takes the requests that are complete off the page; how many
        self._settle = load_library().labkit_waits_settle

    @classmethod
    def open(cls, mpi: ModuleType) -> WaitPage | None:
        """Return the page, or None on an engine that was not started by `begin`."""
        folder = os.environ.get("TMPDIR", "")
        if not os.path.basename(os.path.dirname(folder)).startswith("labkit-"):
            return None  # nobody would remove it
        with contextlib.suppress(OSError):
            name = tempfile.mktemp(prefix="waits-", dir=folder)
            if open_page(load_library(), name, mpi, mpi.COMM_WORLD.rank, mpi.COMM_WORLD.size):
                with open(name, "r+b") as file:
                    return cls(mpi, name, mmap.mmap(file.fileno(), 0))
        return None

    def begin_run(self) -> None:
        """Forget what came before: the calls of a run count from here, on all its ranks."""
        self._mpi.COMM_SELF.Dup().Free()  # the library forgets which communicator it saw last
        head, page = self._page.head, self._page
        head.flags = head.waited = head.requests = 0
        head.comms, head.members = 1, page.rows[0].members
        page.rows[0].entered = page.rows[0].made = 0
        for row in page.rows[1:]:
            row.handle = 0
        for entry in page.request:
            entry.handle = 0
        head.epoch += head.epoch % 2
        self._threads = threading.active_count()

    def name(self, comm: Intracomm, ranks: int, token: str) -> None:
        """Note a communicator of the first ranks under a number that is the same on all of them."""
        head, page = self._page.head, self._page
        if head.comms >= len(page.rows) or head.members + ranks > len(page.member):
            return  # the library says itself that there is no room
        number = zlib.crc32(token.encode()) | 1 << 40  # none that the library gives
        page.rows[head.comms] = CommRow(
            handle=self._mpi._handleof(comm), id=number, first_member=head.members, members=ranks
        )
        page.member[head.members : head.members + ranks] = list(range(ranks))
        head.comms += 1
        head.members += ranks

    def finish(self) -> None:
        """Note that the program has ended: nothing that comes now is its own."""
        self._page.head.flags |= FINISHED

    @contextlib.contextmanager
    def waiting(self, what: object) -> Iterator[Callable[[], None]]:
        """Note a wait for a request, for some of them, or for a `Probed`; None: for something else.

        What it yields is called while the wait lasts: requests that are complete by now are no longer noted.
        """
        self._note(what)
        self._page.head.epoch += 1

        def again() -> None:
            if self._settle():
                self._note(what)
                self._page.head.epoch += 2

        try:
            yield again
        finally:
            self._page.head.epoch += 1

    def _note(self, what: object) -> None:
        page = self._page
        entries = self._entries(what)
        if threading.active_count() > self._threads:
            entries.append(Entry())  # one of the program's own may yet send
        for place, entry in enumerate(entries[: len(page.waiting)]):
            page.waiting[place] = entry
        if len(entries) > len(page.waiting):
            page.waiting[len(page.waiting) - 1] = Entry()  # not all of it is known
        page.head.waited = min(len(entries), len(page.waiting))
        page.head.call = self._call(what, entries)

    def _entries(self, what: Any) -> list[Any]:
        if isinstance(what, Probed):
            return [self._probe(what)]
        requests = what if isinstance(what, Sequence) else [what]
        known = {entry.handle: entry for entry in self._page.request if entry.handle}
        entries = []
        for one in requests:
            if one is None:
                entries.append(Entry())
            elif one != self._mpi.REQUEST_NULL:
                entry = known.get(self._mpi._handleof(one))
                if entry is None and not one.Get_status():  # one that is complete need not be on the page
                    entries.append(Entry())
                elif entry is not None and entry.is_active:
                    entries.append(Entry.from_buffer_copy(entry))
        return entries

    def _probe(self, what: Probed) -> Entry:
        handle, page = self._mpi._handleof(what.comm), self._page
        row = next((one for one in page.rows[: page.head.comms] if one.handle == handle), None)
        is_any = what.source == self._mpi.ANY_SOURCE
        if row is None or not (is_any or 0 <= what.source < row.members):
            return Entry()
        peer = -1 if is_any else page.member[row.first_member + what.source]
        tag = -1 if what.tag == self._mpi.ANY_TAG else what.tag
        return Entry(kind=PROBE, peer=peer, tag=tag, is_active=1, comm=row.id)

    def _call(self, what: object, entries: Sequence[Any]) -> int:
        """Return the number of the call as C names it."""
        if isinstance(what, Sequence):
            return self._numbers["Waitall"]
        if type(what).__name__ in ("Request", "PersistentRequest") and type(what).__module__ != "mpi4py.MPI":
            return self._numbers["Wait"]
        first = entries[0] if entries else Entry()
        return int(first.peer) if first.kind == COLLECTIVE else self._numbers[_NAMES[first.kind]]


#: untyped: names of the module are replaced during a run, and classes mixed into its own
MPI: Any = MPI4PY

#: tests in a row: a message between two cores is there after one or two of them
SPINS = 16
#: how long a waiting rank only gives way, as MPI itself does when it yields; then it sleeps as well
YIELD_S = 0.05
#: the longest sleep between two tests, and its share of the time waited so far
SLEEP_S, SLEEP_SHARE = 1e-3, 0.01
#: pending requests that are tolerated before the finished ones among them are sought out
MANY = 256


class Interrupted(KeyboardInterrupt):
    """Raised inside a program whose run is being ended; not an `Exception`, so that few programs catch it."""


class Aborted(BaseException):
    """The program called ``comm.Abort``: the run ends, the engines live on."""


class _Waiting:
    """What the waiting of this process shares with its signal handler."""

    def __init__(self) -> None:
        self.stop = False
        #: the program's call of Abort: whatever it has caught, it waits for nothing more
        self.aborted: Aborted | None = None
        #: where it is noted who waits for what, if the engine has such a page
        self.page: WaitPage | None = None
        #: requests that nobody waits for any more, with their buffers: MPI may still write into them
        self.pending: list[Any] = []
        #: communicators that the program has freed; they go when no message can be under way in them
        self.freed: list[object] = []

    def tidy(self) -> None:
        """Forget the pending requests that have finished meanwhile."""
        self.pending = [request for request in self.pending if not _is_over(request)]


WAITING = _Waiting()

_yield = getattr(os, "sched_yield", lambda: None)
#: mpi4py's own class: the name `MPI.Request` means another one during a run
_Native: Any = MPI.Request
_Message: Any = MPI.Message
_Test = _Native.Test


def until(ready: Callable[[], object], what: object = None) -> Any:
    """Call `ready` until it returns something true, and return that."""
    if WAITING.aborted is not None:
        raise WAITING.aborted
    for _ in range(SPINS):
        if found := ready():
            return found
    begin = time.monotonic()
    found = _tested(ready, begin, math.inf if WAITING.page is None else NOTE_S)
    if not found and WAITING.page is not None:
        with WAITING.page.waiting(what) as note_again:
            found = _tested(ready, begin, math.inf, note_again)
    return found


def _tested(
    ready: Callable[[], object],
    begin: float,
    patience_s: float,
    after_each: Callable[[], None] = lambda: None,
) -> object:
    """Test until it is over, or until a time limit."""
    while not (found := ready()):
        after_each()
        if WAITING.stop:
            WAITING.stop = False
            raise Interrupted("the run is being ended")
        waited = time.monotonic() - begin
        if waited > patience_s:
            return None
        if waited > YIELD_S:
            time.sleep(min(SLEEP_S, SLEEP_SHARE * waited))
        else:
            _yield()
    return found


def finish(request: object, status: object = None) -> None:
    """Wait for a request of mpi4py; when that is interrupted, what is pending keeps its buffers."""
    for _ in range(3):  # most messages: without the cost of a closure
        if _Test(request, status):
            return
    try:
        until(lambda: _Test(request, status), request)
    except BaseException:
        keep(request)
        raise


def keep(request: object) -> None:
    """Keep a request that nobody will wait for any more."""
    if len(WAITING.pending) >= MANY:
        WAITING.tidy()
    if request != MPI.REQUEST_NULL:
        WAITING.pending.append(_Native(request))


def disown(request: object) -> None:
    """Turn a request into ``REQUEST_NULL``, because a copy of it lives on: nobody looks for its end twice."""
    size = MPI._sizeof(MPI.REQUEST_NULL)
    ctypes.memmove(MPI._addressof(request), MPI._addressof(MPI.REQUEST_NULL), size)


def _is_over(request: object) -> bool:
    try:
        return bool(request == MPI.REQUEST_NULL or _Test(request))
    except MPI.Exception:
        return True


class Request(MPI.Request):  # type: ignore[misc]
    """A request whose waits can be interrupted, and which is not lost when the program drops it."""

    def __del__(self) -> None:
        if self != MPI.REQUEST_NULL:
            WAITING.pending.append(_Native(self))

    def Wait(self, status: object = None) -> bool:  # noqa: N802
        """Wait until it is complete."""
        for _ in range(SPINS):
            if _Test(self, status):
                return True
        return bool(until(lambda: _Test(self, status), self))


def _until_over(wait: Method) -> str | None:
    """Return how a wait is made of mpi4py's test."""
    if wait.form != "blocking":
        return None
    test = wait.name.replace("Wait", "Test").replace("wait", "test")
    arguments = "self, {args}" if wait.kind == "one" else "{args}"
    what = "self" if wait.kind == "one" else "requests"
    return f"until(lambda: over(method, Native.{test}({arguments})), {what})[0]"


add_methods(
    Request,
    REQUESTS,
    _until_over,
    {"__name__": __name__, "Native": _Native, "over": over, "until": until},
    wrap=lambda wait, function: function if wait.kind == "one" else classmethod(function),
)


class PersistentRequest(Request, MPI.Prequest):  # type: ignore[misc]
    """A persistent request whose waits can be interrupted."""


class Message(MPI.Message):  # type: ignore[misc]
    """A matched message whose reception can be interrupted."""

    def Recv(self, buf: object, status: object = None) -> None:  # noqa: N802
        """Receive it into a buffer."""
        finish(_Message.Irecv(self, buf), status)

    def recv(self, status: object = None) -> Any:
        """Receive the object."""
        return Request(_Message.irecv(self)).wait(status)

    def Irecv(self, buf: object) -> Request:  # noqa: N802
        """Begin to receive it into a buffer."""
        return Request(_Message.Irecv(self, buf))

    def irecv(self) -> Request:
        """Begin to receive the object."""
        return Request(_Message.irecv(self))
