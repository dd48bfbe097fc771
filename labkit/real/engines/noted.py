"""Notes of an engine's waits where the client can read them: the page of `labkit.real.mpi.waits`.

An engine's blocking calls are nonblocking ones and tests, so the library notes what has been begun, and not
that anybody waits for it. That is written here, once a wait has lasted `NOTE_S`.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from labkit.real.mpi.waits import COLLECTIVE, OTHER, PROBE, RECV, SEND
from labkit.real.mpi.waits_page import FINISHED, CommRow, Entry, Page, load_library, open_page

__all__ = ["NOTE_S", "Probed", "WaitPage"]

#: how long a wait is nobody's business
NOTE_S = 0.3
_NAMES = {SEND: "Send", RECV: "Recv", PROBE: "Mprobe", OTHER: "Wait"}


class Probed:
    """A wait for a message that nobody has begun to receive.

    Parameters
    ----------
    comm : MPI.Comm
    source, tag : int
    """

    def __init__(self, comm: Any, source: int, tag: int) -> None:
        self.comm, self.source, self.tag = comm, source, tag


class WaitPage:
    """The page of the engine that this process is; see `open`."""

    def __init__(self, mpi: Any, path: str, memory: mmap.mmap) -> None:
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
    def open(cls, mpi: Any) -> WaitPage | None:
        """Return the page, or None where there is none: an engine that was not started by `begin`."""
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

    def name(self, comm: Any, ranks: int, token: str) -> None:
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
    def waiting(self, what: Any) -> Iterator[Callable[[], None]]:
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

    def _note(self, what: Any) -> None:
        page = self._page
        entries = self._entries(what)
        if threading.active_count() > self._threads:
            entries.append(Entry())  # one of the program's own may yet send
        for place, entry in enumerate(entries[: len(page.waiting)]):
            page.waiting[place] = entry
        if len(entries) > len(page.waiting):
            page.waiting[len(page.waiting) - 1] = Entry()  # not all of it can be told
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

    def _probe(self, what: Probed) -> Any:
        handle, page = self._mpi._handleof(what.comm), self._page
        row = next((one for one in page.rows[: page.head.comms] if one.handle == handle), None)
        is_any = what.source == self._mpi.ANY_SOURCE
        if row is None or not (is_any or 0 <= what.source < row.members):
            return Entry()
        peer = -1 if is_any else page.member[row.first_member + what.source]
        tag = -1 if what.tag == self._mpi.ANY_TAG else what.tag
        return Entry(kind=PROBE, peer=peer, tag=tag, is_active=1, comm=row.id)

    def _call(self, what: Any, entries: Sequence[Any]) -> int:
        """Return the number of the call as C names it."""
        if isinstance(what, Sequence):
            return self._numbers["Waitall"]
        if type(what).__name__ in ("Request", "PersistentRequest") and type(what).__module__ != "mpi4py.MPI":
            return self._numbers["Wait"]
        first = entries[0] if entries else Entry()
        return int(first.peer) if first.kind == COLLECTIVE else self._numbers[_NAMES[first.kind]]
