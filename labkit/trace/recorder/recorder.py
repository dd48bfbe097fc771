"""Putting the recorder into a rank: mpi4py's names are replaced before the program sees them.

As MPI's profiling interface would, it stands between the program and the library: `from mpi4py import MPI`
gives classes of the same names, derived from mpi4py's own, whose calls do what they did and note it. What the
program does inside one of them (mpi4py's own messages, an operator's code) is not noted again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from labkit.comm.collective.calls import phase_line
from labkit.comm.surface import METHODS, Method
from labkit.errors import MachineError
from labkit.trace.recorder.collectives import ROOTED, Collectives
from labkit.trace.recorder.ledger import Function, Known, Ledger, Sizes, noted_methods
from labkit.trace.recorder.requests import Communicators, Post, Requests, received_bytes
from labkit.trace.recorder.windows import refused_calls, refused_classes, stand_in, timed_calls, window_class

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Status

__all__ = ["MessageCalls", "Objects", "Recorder", "write_notes"]

_TIMES, _TRIES = 100, 3


def call_cost_s(comm: Comm) -> float:
    """Return the CPU time by which a recorded call takes longer than the library's own."""
    own = [vars(kind)["Barrier"] for kind in type(comm).__mro__ if "Barrier" in vars(kind)]
    native = next(method for method in own if not isinstance(method, FunctionType))
    return max(_least_s(comm.Barrier) - _least_s(lambda: native(comm)), 0.0)


def _least_s(call: Any) -> float:
    found = []
    for _ in range(_TRIES):
        began = time.thread_time()
        for _ in range(_TIMES):
            call()
        found.append((time.thread_time() - began) / _TIMES)
    return min(found)


#: what a second of charged or measured computation counts for: the speed of labkit's hosts by default
FLOPS_PER_S = 1e9

_COMMUNICATORS = ("Comm", "Intracomm", "Topocomm", "Cartcomm", "Graphcomm", "Distgraphcomm")

_REDUCTIONS = ("reduce", "allreduce", "scan", "exscan")


# Sends, receives and probes of a real run, noted.


#: an object's receive takes whatever comes (as the simulator writes it); mpi4py's irecv has this room
_NO_BOUND, _IRECV_BYTES = (1 << 64) - 1, 32768


#: whose frequent forms the kernels make
_COMPILED = {"Send", "Ssend", "Rsend", "Bsend", "Recv"}


class MessageCalls:
    """Makes the calls that note messages.

    `status`: ``mpi4py.MPI.Status``.
    """

    def __init__(self, ledger: Ledger, sizes: Sizes, requests: Requests, status: type[Status]) -> None:
        self.ledger, self.sizes, self.requests, self.status = ledger, sizes, requests, status

    def calls(self, own: dict[str, object]) -> dict[str, Any]:
        """Return recorded calls in place of those that a class of mpi4py defines.

        `own`: What the class itself defines, by name.
        """
        made = noted_methods(self.ledger, own, METHODS, self._note)
        status = self.status()  # of receives without one; calls that are noted do not overlap
        for name in _COMPILED & made.keys():
            made[name] = self.ledger.compiled(name, own[name], made[name], status)
        return made

    def _note(self, row: Method, original: Function) -> Function | None:
        if row.kind == "exchange":
            if row.form != "blocking":
                return None
            return (self._replace if row.base == "Sendrecv_replace" else self._exchange)(row, original)
        kinds = {"send": self._send, "receive": self._receive, "probe": self._look}
        return kinds[row.kind](row, original) if row.kind in kinds else None

    # -- sends ----------------------------------------------------------------------------------------------

    def _send(self, row: Method, original: Function) -> Function:
        ledger, log, no_proc = self.ledger, self.ledger.log, self.ledger.no_proc
        is_synchronous, is_buffered = (row.base.lower() == f"{mode}send" for mode in "sb")
        is_blocking, is_init, is_buffer = row.form == "blocking", row.form == "persistent", row.is_buffer

        def noted(comm: Comm, data: object, dest: int, tag: int) -> object:
            known = ledger.known(comm)
            ledger.dumped.clear()
            result = original(comm, data, dest, tag)
            if dest == no_proc:
                return result if is_blocking else self.requests.wrapped(result, None)
            size = self.sizes.bytes(data) if is_buffer else ledger.dumped[0]
            if is_blocking:
                log.sent(known.ranks[dest], tag, size, known.number, is_synchronous, is_buffered)
                return result
            fields = (True, known.ranks[dest], tag, size, known.number, is_synchronous, is_buffered)
            return self.requests.begun(result, Post(known, fields), is_init)

        return noted

    # -- receives -------------------------------------------------------------------------------------------

    def _room(self, buffer: object, is_object: bool, is_blocking: bool) -> int:
        """Return how much a receive takes."""
        if not is_object:
            return self.sizes.bytes(buffer)
        if buffer is None:
            return _NO_BOUND if is_blocking else _IRECV_BYTES
        return int(buffer) if hasattr(buffer, "__index__") else self.sizes.bytes(buffer)

    def _fields(self, known: Known, source: int, tag: int, room: int) -> tuple[object, ...]:
        label = -1 if tag == self.ledger.any_tag else tag
        return False, self.ledger.world_peer(known, source), label, room, known.number, False, False

    def _receive(self, row: Method, original: Function) -> Function:
        ledger, is_buffer, is_init = self.ledger, row.is_buffer, row.form == "persistent"
        log = ledger.log

        def noted(comm: Comm, buf: object, source: int, tag: int, status: Status | None) -> object:
            known = ledger.known(comm)
            got = self.status() if status is None else status
            result = original(comm, buf, source, tag, got)
            if source != ledger.no_proc:
                label = -1 if tag == ledger.any_tag else tag
                room = self._room(buf, not is_buffer, True)
                size = received_bytes(got, self.sizes.unequal(buf) if is_buffer else None)
                log.received(
                    ledger.world_peer(known, source),
                    label,
                    room,
                    known.number,
                    known.ranks[got.Get_source()],
                    got.Get_tag(),
                    size,
                )
            return result

        def begun(comm: Comm, buf: object, source: int, tag: int) -> object:
            known = ledger.known(comm)
            result = original(comm, buf, source, tag)
            if source == ledger.no_proc:
                return self.requests.wrapped(result, None)
            fields = self._fields(known, source, tag, self._room(buf, not is_buffer, False))
            post = Post(known, fields, self.sizes.unequal(buf) if is_buffer else None)
            return self.requests.begun(result, post, is_init)

        return noted if row.form == "blocking" else begun

    # -- both together ---------------------------------------------------------------------------------------

    def _exchange(self, row: Method, original: Function) -> Function:
        ledger, is_buffer = self.ledger, row.is_buffer

        def noted(
            comm: Comm,
            data: object,
            dest: int,
            sendtag: int,
            buffer: object,
            source: int,
            recvtag: int,
            status: Status | None,
        ) -> object:
            known = ledger.known(comm)
            got = self.status() if status is None else status
            ledger.dumped.clear()
            result = original(comm, data, dest, sendtag, buffer, source, recvtag, got)
            size = 0
            if dest != ledger.no_proc:
                size = self.sizes.bytes(data) if is_buffer else ledger.dumped[0]
            room = self._room(buffer, not is_buffer, True) if source != ledger.no_proc else 0
            unequal = self.sizes.unequal(buffer) if is_buffer else None
            self._exchanged(known, (dest, sendtag), size, (source, recvtag), room, got, unequal)
            return result

        return noted

    def _replace(self, row: Method, original: Function) -> Function:
        def noted(
            comm: Comm,
            buf: object,
            dest: int,
            sendtag: int,
            source: int,
            recvtag: int,
            status: Status | None,
        ) -> object:
            known = self.ledger.known(comm)
            got = self.status() if status is None else status
            result = original(comm, buf, dest, sendtag, source, recvtag, got)
            room, unequal = self.sizes.bytes(buf), self.sizes.unequal(buf)
            self._exchanged(known, (dest, sendtag), room, (source, recvtag), room, got, unequal)
            return result

        return noted

    def _exchanged(
        self,
        known: Known,
        ends: tuple[int, int],
        size: int,
        origin: tuple[int, int],
        room: int,
        status: Status,
        unequal: tuple[int, int] | None,
    ) -> None:
        """Note a send and a receive that were over together; with oneself nothing moves."""
        log, no_proc = self.ledger.log, self.ledger.no_proc
        if ends[0] == origin[0] == known.rank:
            return
        sent = None
        if ends[0] != no_proc:
            sent = log.post(True, known.ranks[ends[0]], ends[1], size, known.number, False, False, False)
        if origin[0] == no_proc:
            if sent is not None:
                log.waited([sent])
            return
        post = Post(known, self._fields(known, *origin, room), unequal)
        received = post.begin(log)
        post.match(self.ledger, received, status)
        log.waited([received] if sent is None else [received, sent])

    # -- probes ---------------------------------------------------------------------------------------------

    def _look(self, row: Method, original: Function) -> Function:
        ledger, is_blocking = self.ledger, row.form == "blocking"

        def noted(comm: Comm, source: int, tag: int, status: Status | None) -> object:
            known = ledger.known(comm)
            got = self.status() if status is None else status
            result = original(comm, source, tag, got)
            if result is None or result is False:
                ledger.polled()
            elif is_blocking and source != ledger.no_proc:
                ledger.log.probed(known.ranks[got.Get_source()], got.Get_tag(), known.number)
            return self.requests.message(result, known, got)

        return noted


class Objects:
    """Makes the calls that note collectives on objects.

    `is_naive`: Whether mpi4py gathers objects instead of reducing them over trees
        (``mpi4py.rc.fast_reduce``).
    """

    def __init__(self, ledger: Ledger, is_naive: bool) -> None:
        self.ledger, self.is_naive = ledger, is_naive

    def calls(self, own: dict[str, object]) -> dict[str, Any]:
        """Return recorded calls in place of those that a class of mpi4py defines."""
        return noted_methods(self.ledger, own, METHODS, self._note)

    def _note(self, row: Method, original: Function) -> Function | None:
        """Return a wrapper that makes the call and records its outcome."""
        name, ledger = row.name, self.ledger
        if row.kind != "collective" or row.is_buffer or name == "barrier":
            return None
        note = getattr(self, f"_note_{name}")
        is_rooted, has_blocks = name in ROOTED, name in ("alltoall", "scatter") and ledger.has_times
        is_refused = self.is_naive and ledger.has_lines and name in _REDUCTIONS

        def noted(comm: Comm, *arguments: Any) -> object:
            if is_refused:
                raise ledger.missing(f"Comm.{name}", "mpi4py.rc.fast_reduce is off")
            known = ledger.known(comm)
            ledger.dumped.clear()
            ledger.loaded.clear()
            roots = arguments[-1:] if is_rooted else ()
            number = ledger.joined(known, 0, *roots)
            result = original(comm, *arguments)
            ledger.sized(sum(ledger.dumped))
            if has_blocks and len(ledger.dumped) == known.size:
                ledger.gave(number, list(ledger.dumped))
            if ledger.has_lines:
                with ledger.quiet():
                    note(known, *roots)
            return result

        return noted

    # -- what is noted --------------------------------------------------------------------------------------

    def _note_bcast(self, known: Known, root: int) -> None:
        self.ledger.plain(known, "bcast", 8, 1, root)
        self.ledger.plain(known, "bcast", 1, self.ledger.loaded[0], root)

    def _note_gather(self, known: Known, root: int) -> None:
        self.ledger.plain(known, "gather", 8, 1, root)
        received = self.ledger.loaded if known.rank == root else [0] * known.size
        self.ledger.tables(known, "gatherv", self.ledger.dumped, received, root)

    def _note_scatter(self, known: Known, root: int) -> None:
        self.ledger.plain(known, "scatter", 8, 1, root)
        sent = self.ledger.dumped if known.rank == root else [0] * known.size
        self.ledger.tables(known, "scatterv", sent, self.ledger.loaded, root)

    def _note_allgather(self, known: Known) -> None:
        self.ledger.plain(known, "allgather", 8, 1)
        self.ledger.tables(known, "allgatherv", self.ledger.dumped, self.ledger.loaded)

    def _note_alltoall(self, known: Known) -> None:
        self.ledger.plain(known, "alltoall", 8, 1)
        self.ledger.tables(known, "alltoallv", self.ledger.dumped, self.ledger.loaded)

    # -- trees of messages ----------------------------------------------------------------------------------

    def _note_reduce(self, known: Known, root: int) -> None:
        self._note_tree(known, root)

    def _note_tree(self, known: Known, root: int) -> Iterator[int]:
        """Note a reduction over a binomial tree to rank 0, which sends it on; return the sizes left."""
        dumped, loaded = iter(self.ledger.dumped), iter(self.ledger.loaded)
        next(dumped), next(loaded)  # mpi4py copies the object first
        rank, size, tag = known.rank, known.size, known.private_tag()
        mask = 1
        while mask < size:
            if rank & mask:
                self._message(known, True, rank & ~mask, tag, next(dumped))
                break
            if rank | mask < size:
                self._message(known, False, rank | mask, tag, next(loaded))
            mask <<= 1
        if root != 0 and rank == 0:
            self._message(known, True, root, tag, next(dumped))
        elif root != 0 and rank == root:
            self._message(known, False, 0, tag, next(loaded))
        return loaded

    def _note_allreduce(self, known: Known) -> None:
        size = next(self._note_tree(known, 0))
        self.ledger.plain(known, "bcast", 8, 1)
        self.ledger.plain(known, "bcast", 1, size)

    def _note_scan(self, known: Known) -> None:
        """Note a prefix reduction by recursive doubling."""
        dumped, loaded = iter(self.ledger.dumped), iter(self.ledger.loaded)
        next(dumped), next(loaded)
        tag, mask = known.private_tag(), 1
        while mask < known.size:
            peer = known.rank ^ mask
            if peer < known.size:
                self._exchange(known, peer, tag, 8, 8)
                self._exchange(known, peer, tag, next(dumped), next(loaded))
            mask <<= 1

    _note_exscan = _note_scan

    def _message(self, known: Known, is_send: bool, peer: int, tag: int, size: int) -> None:
        """Note the size's message and the object's."""
        log = self.ledger.log
        for length in (8, size):
            post = log.post(is_send, known.ranks[peer], tag, length, known.number | 1, False, False, is_send)
            if not is_send:
                log.matched(post, known.ranks[peer], tag, length)
            log.waited([post])

    def _exchange(self, known: Known, peer: int, tag: int, sent: int, received: int) -> None:
        log, other, number = self.ledger.log, known.ranks[peer], known.number | 1
        first = log.post(True, other, tag, sent, number, False, False, False)
        second = log.post(False, other, tag, received, number, False, False, False)
        log.matched(second, other, tag, received)
        log.waited([second, first])


class Recorder:
    """Records what one rank's program calls, from its making on.

    `mpi`: ``mpi4py.MPI``.
    `computation`: ``"measured"``, ``"charged"`` or ``"none"``.
    `scale`: Factor of measured computation.
    `instead`: Classes that the program gets instead of mpi4py's own, by these: each is derived from the one
        it stands for.
    `disown`: Is given a request of which the program gets a copy.
    `has_lines`, `has_times`, `is_summed`: As of `labkit.trace.recorder.ledger.Ledger`.
    `leave_out`: Phases (``*`` stands for anything) in which nothing is recorded: calls go straight to mpi4py.
    `counters`: As of `labkit.trace.recorder.ledger.Ledger`.
    """

    def __init__(
        self,
        mpi: ModuleType,
        computation: str = "measured",
        scale: float = 1.0,
        instead: Mapping[Any, object] | None = None,
        disown: Callable[[Any], None] | None = None,
        has_lines: bool = True,
        has_times: bool = False,
        leave_out: Sequence[str] = (),
        is_summed: bool = False,
        counters: Sequence[str] = (),
    ) -> None:
        self._mpi, self._disown = mpi, disown
        self._instead = instead or {}
        self._is_charged = computation == "charged" or not has_lines
        speed = FLOPS_PER_S * (scale if computation == "measured" else 1.0)
        self.ledger = Ledger(mpi, speed, computation == "measured", has_lines, has_times, is_summed, counters)
        self._classes: dict[object, Any] = {}
        self._before: dict[str, Any] = {}
        #: the communicator of this rank alone, recorded
        self._alone: Any = None
        self._leave_out = tuple(leave_out)
        #: phases that are left out, and how many of those that the rank is in
        self._is_left_out: dict[str, bool] = {}
        self._depth = 0

    @property
    def is_measured(self) -> bool:
        """Whether kernels that charge their cost must not, as their work is measured."""
        return not self._is_charged

    def install(self, dumps: object = None, loads: object = None) -> None:
        """Replace mpi4py's names; the program must not have seen them.

        `dumps`, `loads`: How mpi4py pickles here; default: as it does by itself.
        """
        mpi, ledger = self._mpi, self.ledger
        sizes = Sizes(mpi)
        requests = Requests(ledger, mpi, self._instead.get(mpi.Message), self._disown)
        naive = not getattr(__import__("mpi4py").rc, "fast_reduce", True)
        makers = [
            MessageCalls(ledger, sizes, requests, mpi.Status).calls,
            Collectives(ledger, sizes).calls,
            Objects(ledger, naive).calls,
            Communicators(ledger, sizes, self._recorded).calls,
            lambda own: (
                refused_calls(ledger, own)
                if ledger.has_lines
                else timed_calls(ledger, own, requests.operating, self._recorded)
            ),
        ]
        names = self._communicators(makers) | refused_classes(ledger, mpi)
        if not ledger.has_lines:
            names["Win"] = window_class(ledger, mpi, requests.operating)
        names |= {
            "Request": requests.request,
            "Prequest": requests.persistent,
            "Message": requests.message_type,
        }
        names |= {"File": self._file(), "pickle": self._watched_pickling(dumps, loads)}
        for constant, kind in (
            ("COMM_WORLD", "Intracomm"),
            ("COMM_SELF", "Intracomm"),
            ("COMM_NULL", "Comm"),
            ("REQUEST_NULL", "Request"),
            ("MESSAGE_NULL", "Message"),
            ("MESSAGE_NO_PROC", "Message"),
        ):
            names[constant] = names[kind](getattr(mpi, constant))
        self._alone = names["COMM_SELF"]
        self._before = {name: getattr(mpi, name) for name in names}
        mpi.__dict__.update(names)
        ledger.log.resume()

    def _communicators(
        self, makers: list[Callable[[dict[str, object]], dict[str, object]]]
    ) -> dict[str, Any]:
        """Return classes of communicators whose calls are noted, related as mpi4py's are."""
        mpi = self._mpi
        made: dict[str, object] = {}
        for name in _COMMUNICATORS:
            native = getattr(mpi, name)
            base = self._instead.get(native, native)
            # what stands in for a class has its own calls for what that inherits
            names = vars(native) if base is native else dir(base)
            own = {key: getattr(base, key) for key in names if not key.startswith("__")}
            calls: dict[str, object] = {"__module__": mpi.__name__, "__hash__": None}
            for make in makers:
                calls |= make(own)
            above = [made[base.__name__] for base in native.__mro__[1:] if base.__name__ in made][:1]
            # communicators that mpi4py itself makes, such as merged groups, are of its own class
            kind = type(
                "_Kind",
                (type(above[0] if above else base),),
                {"__instancecheck__": lambda _, thing, native=native: isinstance(thing, native)},
            )
            made[name] = self._classes[base] = kind(name, (*above, base), calls)
        return made

    def _recorded(self, comm: Comm) -> Any:
        """Return a communicator of mpi4py's as one whose calls are noted; return ours unchanged."""
        made = self._classes.get(type(comm))
        return comm if made is None or comm == self.ledger.null else made(comm)

    def _watched_pickling(self, dumps: object, loads: object) -> object:
        """Return what stands for ``MPI.pickle``: mpi4py's own then reports the sizes of what it handles."""
        ledger, native = self.ledger, self._mpi.pickle
        pickling: Any = self._mpi.Pickle

        def watch(self_: object, *arguments: object, **named: object) -> None:
            """Do as `Pickle.__init__` does, and be watched."""
            pickling.__init__(self_, *arguments, **named)

            def noted_dumps(obj: object) -> bytes:
                data: bytes = pickling.dumps(self_, obj)
                ledger.dumped.append(len(data))
                return data

            def noted_loads(data: Any) -> object:
                ledger.loaded.append(memoryview(data).nbytes)
                return pickling.loads(self_, data)

            native.__init__(noted_dumps, noted_loads)

        kind = type("Pickle", (pickling,), {"__module__": self._mpi.__name__, "__init__": watch})
        return kind(dumps, loads, native.PROTOCOL)

    def _file(self) -> Any:
        """Return mpi4py's class of files, which leaves a note when one is opened."""
        native, notes = self._mpi.File, self.ledger.notes

        def opened(cls: object, *arguments: Any, **named: Any) -> Any:
            notes["MPI.File: what files take and move is not in the trace"] = None
            return native.Open(*arguments, **named)

        return stand_in(native, "File", {"__module__": self._mpi.__name__, "Open": classmethod(opened)})

    def uninstall(self) -> None:
        """Put mpi4py's names back, for processes that outlive the run."""
        self._mpi.__dict__.update(self._before)
        self._before = {}

    # -- the machine's context ------------------------------------------------------------------------------

    def compute(self, seconds: float | None, flops: float | None) -> None:
        """Note computation that the program charges, where that is what counts."""
        if self._is_charged and self.ledger.has_lines:
            self.ledger.log.compute(seconds if seconds is not None else (flops or 0.0) / FLOPS_PER_S)

    def mark(self, rank: int, name: str, is_begin: bool) -> None:
        """Note where a phase begins or ends; in one that is left out nothing is noted."""
        if self.ledger.summary is not None:
            self.ledger.log.mark(name, is_begin, self.ledger.log.is_busy)
        self.ledger.mark(phase_line(rank, name, is_begin))
        if not self._leave_out:
            return
        known = self._is_left_out.get(name)
        if known is None:
            known = any(fnmatchcase(name, pattern) for pattern in self._leave_out)
            self._is_left_out[name] = known
            if known:
                self.ledger.notes[f"phase {name} is left out: what is called in it counts as computation"] = (
                    None
                )
        if known:
            self._depth += 1 if is_begin else -1
            self.ledger.log.is_busy = self._depth > 0

    # -- the end --------------------------------------------------------------------------------------------

    def call_cost_s(self) -> float | None:
        """Measure what a call takes longer for being noted; nothing of this recorder may be read any more.

        None where that cannot be measured: the program has ended MPI itself, or lines are written.
        """
        if self.ledger.has_lines or self._mpi.Is_finalized():
            return None
        self.ledger.log.is_busy = False
        try:
            return call_cost_s(self._alone)
        finally:
            self.ledger.log.is_busy = True  # stopped, as it was

    def finish(self) -> None:
        """Note the computation after the last call; what follows is not the program's."""
        self.ledger.log.is_busy = True
        self.ledger.log.pause()
        if self.ledger.summary is not None:
            self.ledger.log.finish_sums()

    def begin(self) -> None:
        """Note that the program begins: what came before is not its own."""
        self._depth = 0
        self.ledger.log.is_busy = False
        self.ledger.log.restart()
        self.ledger.blocks.clear()
        if self.ledger.windows:
            self.ledger.windows.clear()
        self.ledger.log.resume()
        if self.ledger.summary is not None:
            self.ledger.log.begin_sums()

    def record(self) -> dict[str, object]:
        """Return what the lines mean to other ranks, as plain data."""
        log = self.ledger.log
        return {
            "communicators": self.ledger.identities(),
            "remarks": self.ledger.remarks(),
            "calls": log.calls,
            "measured_s": log.measured_s,
        }

    def write(self, path: str, about: str) -> None:
        """Write the lines, and in a second file what they mean to other ranks.

        `path`: Of the lines.
        `about`: Of the rest, as JSON; it comes into being when all is written.
        """
        write_notes(path, about, self.ledger.log.lines(), self.record())


def write_notes(path: str, about: str, lines: bytes, record: dict[str, object]) -> None:
    """Write what a rank has noted: see `Recorder.write`."""
    try:
        with open(path, "wb") as file:
            file.write(lines)
        with open(f"{about}.part", "w", encoding="utf-8") as text:
            json.dump(record, text)
        os.replace(f"{about}.part", about)
    except OSError as error:
        raise MachineError(
            f"the trace of a rank cannot be written: {error}", code="unwritable-file"
        ) from None
