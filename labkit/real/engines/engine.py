"""An engine's part of a run: it takes the program, runs it, and reports what happened.

`execute` never raises and never returns before the engine is as it was. Messages of one run cannot reach
another one: each repetition has a duplicate of the ranks' communicator. It is freed some runs later, and only
when no rank found a message or a request left over; else it stays, which costs a little memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import os
import pickle
import platform
import signal
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NoReturn, cast

from mpi4py import MPI as MPI4PY

import labkit
from labkit.comm.collective.objects import ObjectCollectives
from labkit.comm.surface import MAKERS, METHODS, Method, add_methods
from labkit.errors import code_of
from labkit.process.stacks import is_framework, traceback_without
from labkit.program import context
from labkit.real.context import RankContext, available_cores
from labkit.real.engines.stage import Interrupts, count_threads, own_interrupts, stage, stand_by
from labkit.real.engines.waits import (
    WAITING,
    Aborted,
    Message,
    PersistentRequest,
    Probed,
    Request,
    WaitPage,
    disown,
    finish,
    keep,
    until,
)
from labkit.real.program import (
    ResultError,
    Turns,
    flush_streams,
    library_of,
    load_program,
    pack_result,
    until_exit,
)

__all__ = ["CLASSES", "describe_engine", "execute", "interruptible"]

#: the first ranks of the world, by the token of the client that uses them
_bases: dict[str, Any] = {}

#: communicators of runs that ended well, by run: they are freed when the client says so
_quarantine: dict[str, list[Any]] = {}


# mpi4py's communicators with calls that an interrupt can end: what a program gets on a cluster of engines.
#
# They are mpi4py's classes, so that buffers, datatypes, operators and ``isinstance`` are as ever; only what
# blocks is made of nonblocking calls and tests. What has no good nonblocking twin (making communicators)
# comes
# after a nonblocking barrier: once all ranks have arrived, the call itself does not wait for anybody.

#: untyped: names of the module are replaced during a run, and classes mixed into its own
MPI: Any = MPI4PY

#: blocking calls that are their nonblocking twins, waited for
_TWINS = {
    row.base: row.name
    for row in METHODS
    if row.form == "nonblocking" and row.kind in ("send", "collective") and row.base.lower() != "bsend"
}

#: calls that give a request
_STARTED = {
    row.name: PersistentRequest if row.form == "persistent" else Request
    for row in METHODS
    if row.form != "blocking" and row.kind != "probe"
}

_NEIGHBOR = [row.name for row in METHODS if row.kind == "neighbor" and row.form == "blocking"]

#: mpi4py's own class: the names of the module mean others during a recorded run
_Comm = MPI.Comm

#: duplicates in which reductions exchange their messages, by the handle of the communicator
_contexts: dict[int, object] = {}


class Communicator:
    """The part that all interruptible communicators share; its calls are those of `mpi4py.MPI.Comm`."""

    # mpi4py's own classes are the other bases, and the table has the rest: named so that checkers know them
    mprobe: Any

    def Sendrecv(  # noqa: N802
        self,
        sendbuf: object,
        dest: int,
        sendtag: int = 0,
        recvbuf: object = None,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
        status: object = None,
    ) -> None:
        """Send a buffer and receive into another one."""
        receive = _Comm.Irecv(self, recvbuf, source, recvtag)
        try:
            send = _Comm.Isend(self, sendbuf, dest, sendtag)
        except BaseException:
            receive.Cancel()
            keep(receive)
            raise
        try:
            finish(receive, status)
        except BaseException:
            keep(send)
            raise
        finish(send)

    # -- objects ------------------------------------------------------------------------------------------

    def recv(
        self, buf: object = None, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: object = None
    ) -> Any:
        """Receive an object."""
        if buf is not None:
            return Request(_Comm.irecv(self, buf, source, tag)).wait(status)
        return self.mprobe(source, tag, status).recv(status)

    def sendrecv(
        self,
        sendobj: object,
        dest: int,
        sendtag: int = 0,
        recvbuf: object = None,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
        status: object = None,
    ) -> Any:
        """Send an object and receive another one."""
        request = _Comm.isend(self, sendobj, dest, sendtag)
        try:
            received = self.recv(recvbuf, source, recvtag, status)
        except BaseException:
            keep(request)
            raise
        finish(request)
        return received

    # -- communicators ------------------------------------------------------------------------------------

    def Idup(self, info: object = None) -> tuple[Any, Request]:  # noqa: N802
        """Begin to duplicate."""
        made, request = _Comm.Idup(self, info)
        return interruptible(made), Request(request)

    def Free(self) -> None:  # noqa: N802
        """Let go of it; it is freed when no message can be under way in it."""
        kind: Any = type(self)
        WAITING.freed += [kind(self), *take_contexts(self)]
        _make_null(self)

    Disconnect = Free

    def Abort(self, errorcode: int = 0) -> NoReturn:  # noqa: N802
        """End the run on all ranks, whatever the program catches; the engines live on."""
        WAITING.aborted = Aborted(errorcode)
        raise WAITING.aborted


def _twin(row: Method) -> str | None:
    """Return how a call that blocks is made of its nonblocking twin, which may have no status."""
    if row.form != "blocking":
        return None
    twin = "Comm." + ("I" if row.is_buffer else "i") + row.name.lower() + "(self, {args})"
    if row.kind == "probe":
        found = f"until(lambda: {twin}, Probed(self, source, tag))"
        return f"Message({found})" if row.name.lower() == "mprobe" else f"bool({found})"
    if row.name in ("Recv", "Sendrecv_replace"):
        return f"finish({twin.replace('{args}', row.arguments.removesuffix(', status'))}, status)"
    return None


add_methods(
    Communicator,
    METHODS,
    _twin,
    {"__name__": __name__, "Comm": _Comm, "Message": Message, "Probed": Probed}
    | {"finish": finish, "until": until}
    | {"ANY_SOURCE": MPI.ANY_SOURCE, "ANY_TAG": MPI.ANY_TAG},
)


class _Objects(ObjectCollectives):
    """The lower-case collectives: sizes first, then pickles; the trees of reductions are mpi4py's own.

    Results are the same as on ``on="mpi"`` to the last bit.
    """

    handle: int
    _pickle = MPI.pickle

    def _private(self, name: str, root: int, op: str = "") -> tuple[Any, int]:
        """Return the duplicate for the messages of reductions, and their tag; all ranks make it together."""
        if self.handle not in _contexts:
            made, request = _Comm.Idup(self)
            finish(request)
            _contexts[self.handle] = made
        return interruptible(_contexts[self.handle]), 0

    def _leave(self, name: str) -> None:
        """Nobody keeps a list."""


def take_contexts(comm: Any = None) -> list[object]:
    """Return what reductions have made for a communicator, or for all, and forget it."""
    handles = list(_contexts) if comm is None else [comm.handle]
    return [_contexts.pop(handle) for handle in handles if handle in _contexts]


def _make_null(comm: object) -> None:
    """Turn a communicator into ``COMM_NULL`` as `Free` does, without freeing it."""
    size = MPI._sizeof(MPI.COMM_NULL)
    ctypes.memmove(MPI._addressof(comm), MPI._addressof(MPI.COMM_NULL), size)


def _call(
    owner: object, name: str, then: Callable[[object], object], shown: str = "", is_together: bool = False
) -> Callable[..., object]:
    """Return a call that makes mpi4py's own, then does something with what that returns.

    With `is_together` all ranks of the communicator make it, and come together before.
    """
    original = getattr(owner, name)

    @functools.wraps(getattr(owner, shown or name))
    def call(self: object, *args: object, **kwargs: object) -> object:
        if is_together:
            finish(_Comm.Ibarrier(self))
        return then(original(self, *args, **kwargs))

    return call


def interruptible(comm: object) -> Any:
    """Return the communicator with calls that can be interrupted; what is null stays unchanged."""
    if isinstance(comm, Communicator) or comm == MPI.COMM_NULL:
        return comm
    for kind, wrapped in reversed(CLASSES.items()):  # the special ones first
        if isinstance(comm, kind):
            return wrapped(comm)
    return comm


def _calls(owner: object) -> dict[str, object]:
    """Build the calls that replace those which mpi4py's class `owner` itself defines."""
    own = vars(owner)
    calls: dict[str, object] = {}
    for name, twin in _TWINS.items():
        if name in own and twin in own:
            calls[name] = _call(owner, twin, finish, shown=name)
    for name, kind in _STARTED.items():
        if name in own:
            calls[name] = _call(owner, name, kind)
    # Open MPI's nonblocking neighbor exchanges swap the two messages of a pair that is a neighbor twice.
    for name in _NEIGHBOR:
        if name in own:
            calls[name] = _call(owner, name, interruptible, is_together=True)
    for name, is_together in MAKERS.items():
        if name in own:
            calls[name] = _call(owner, name, interruptible, is_together=is_together)
    return calls


_ANY = type("_Any", (Communicator,), _calls(MPI.Comm))

_INTRA = type("_Intra", (_Objects, _ANY), _calls(MPI.Intracomm))

_TOPO = type("_Topo", (_INTRA,), _calls(MPI.Topocomm))

#: mpi4py's classes and what stands for each of them in a program
CLASSES: dict[type, type] = {
    MPI.Intracomm: type("Intracomm", (_INTRA, MPI.Intracomm), {}),
    MPI.Cartcomm: type("Cartcomm", (_TOPO, MPI.Cartcomm), _calls(MPI.Cartcomm)),
    MPI.Graphcomm: type("Graphcomm", (_TOPO, MPI.Graphcomm), {}),
    MPI.Distgraphcomm: type("Distgraphcomm", (_TOPO, MPI.Distgraphcomm), {}),
    MPI.Intercomm: type("Intercomm", (_ANY, MPI.Intercomm), _calls(MPI.Intercomm)),
}

_WORLD, _SELF = MPI.COMM_WORLD, MPI.COMM_SELF

_Idup, _Ibarrier, _Iprobe, _Free = MPI.Comm.Idup, MPI.Comm.Ibarrier, MPI.Comm.Iprobe, MPI.Comm.Free


def describe_engine() -> dict[str, object]:
    """Describe this engine, and get it ready: signals that come from now on must not end it."""
    if WAITING.page is None:  # in the folder of the launch, which a program does not see any more
        WAITING.page = WaitPage.open(MPI)
    stand_by()
    return {
        "waits": WAITING.page and WAITING.page.path,
        "rank": _WORLD.rank,
        "size": _WORLD.size,
        "pid": os.getpid(),
        "host": platform.node(),
        "cores": available_cores(),
        "labkit": labkit.__version__,
        "folder": os.path.dirname(os.path.abspath(labkit.__file__)),
        "python": platform.python_version(),
        "library": library_of(MPI),
    }


def execute(header: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Run this engine's part of a run.

    `header`: What the run is: see `labkit.real.machines`.
    `payload`: The pickled program and its arguments.
    Returns: ``kind`` (done, interrupted, exception, exit, abort, result, machine), ``time``, ``text``,
        ``place`` (the program's frames when it was interrupted), ``shares`` (per repetition its times and its
        pickled result), ``output`` (bytes), ``leftover`` (messages never received), ``threads``, ``trace``
        (of a recorded run, what the rank has noted: lines, and what they mean).
    """
    interrupts = Interrupts()
    with own_interrupts(interrupts):
        return _execute(header, payload, interrupts)


# A thread that ends a run on its engine when nobody else does: too much output, or a client that is gone.

#: how long the process that started a run has to end it at the time limit, before the engine does it itself
GRACE_S = 15.0

#: how frequently the thread looks
LOOK_S = 0.1


class Watchdog:
    """Interrupts the calling thread when its output or its time exceeds the limits.

    `output`: Gets what the run prints.
    `output_limit_bytes`: How much that may be.
    `limit_s`: How long the run may take, in seconds.
    """

    def __init__(self, output: BinaryIO, output_limit_bytes: int, limit_s: float | None) -> None:
        self.reason = ""
        self._output, self._most = output, output_limit_bytes
        self._deadline = None if limit_s is None else time.monotonic() + limit_s + GRACE_S
        self._over = threading.Event()
        self._thread = threading.get_ident()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="labkit-watchdog")

    def __enter__(self) -> Watchdog:
        self._watcher.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        pause_s = LOOK_S
        while not self._over.wait(pause_s):
            if os.fstat(self._output.fileno()).st_size > self._most:
                self.reason = "output"
            elif self._deadline is not None and time.monotonic() > self._deadline:
                self.reason = "time"
            if self.reason:
                signal.pthread_kill(self._thread, signal.SIGINT)
                pause_s = 0.5  # again: a program may have caught the first one


def _execute(header: dict[str, Any], payload: bytes, interrupts: Interrupts) -> dict[str, object]:
    job = _RankRun(header, payload, interrupts)
    threads = count_threads()
    try:
        with _output_file(header.get("output_file")) as output:
            watchdog = Watchdog(output, header["output_limit_bytes"], header["limit_s"])
            try:
                with stage(header, output), watchdog:
                    job.run(output)
                record = job.record("done")
            except BaseException as error:  # the process border: whatever it is, it has to be reported
                record = job.failure(error)
            record["reason"] = watchdog.reason
            record["output"] = _read(output, header["output_limit_bytes"])
    except OSError as error:
        record = job.record("machine", f"the output of rank {job.rank} cannot be kept: {error}")
    return record | {"threads": count_threads() - threads}


def _output_file(path: str | None) -> BinaryIO:
    """Open what keeps the output: where the client can look into it, or where nobody else sees it."""
    if path is None or not os.path.isdir(os.path.dirname(path)):
        return cast(BinaryIO, tempfile.TemporaryFile())
    return open(path, "w+b")


class _RankRun:
    def __init__(self, header: dict[str, Any], payload: bytes, interrupts: Interrupts) -> None:
        self.header, self.payload, self.interrupts = header, payload, interrupts
        self.rank: int = _WORLD.rank
        self.shares: list[tuple[dict[str, Any], bytes]] = []
        self.comms: list[Any] = []
        self.leftover: list[tuple[int, int]] = []
        self.is_clean = False
        self.has_finished = False
        self.recorder: Any = None
        self.trace: tuple[bytes, dict[str, Any]] | None = None

    def run(self, output: BinaryIO) -> None:
        """Run the program, as often as asked."""
        header = self.header
        machine = RankContext(self.rank, header["ranks"])
        WAITING.tidy()
        WAITING.freed, WAITING.aborted = [], None
        for run in header["free"]:
            for comm in _quarantine.pop(run, ()):
                with contextlib.suppress(MPI.Exception):
                    _Free(comm)
        take_contexts()  # of a run that failed
        base = self.base()
        if WAITING.page is not None:
            WAITING.page.begin_run()
            WAITING.page.name(base, header["ranks"], header["run"])
        context.install(machine, MPI)
        try:
            barrier = lambda: finish(_Ibarrier(base))  # noqa: E731
            turns = Turns(header, lambda: interruptible(base), barrier)
            for repetition in turns:
                self.repeat(repetition, turns, machine, base, output)
        finally:
            context.install(None)
            if self.recorder is not None:
                self.end_recording()
        self.has_finished = True
        if WAITING.page is not None:
            WAITING.page.finish()
        finish(_Ibarrier(base))
        self.look_for_leftovers()

    def repeat(
        self, repetition: int, turns: Turns, machine: RankContext, base: MPI.Comm, output: BinaryIO
    ) -> None:
        """Run the program once, and write its outcome."""
        header = self.header
        machine.reset()
        machine.run_seed = header["seed"] + repetition
        self.communicator(base, repetition)
        counting = header.get("counts") if repetition == 0 else None
        if header.get("recording") is not None and repetition < header["recorded"]:
            self.record_calls(machine)
        machine.begin_counting(counting is not None)
        with self.program():
            call = load_program(header, self.payload, self.rank, repetition, lambda: MPI.COMM_WORLD)
        meter = self.meter(base)
        clock = [meter.compare()] if meter is not None else []
        turns.start()
        if self.recorder is not None:
            self.recorder.begin()
        begin = time.monotonic()
        with self.program():
            result = until_exit(call)
        if WAITING.aborted is not None:
            raise WAITING.aborted
        end = time.monotonic()
        if self.recorder is not None:
            self.recorder.finish()
        times = {"begin": begin, "end": end, "phases": machine.phases, "seed": machine.run_seed}
        times |= machine.end_counting() | machine.end_deciding() | (counting or {})
        if meter is not None:
            clock.append(meter.compare())
            times["timeline"] = {**self.recorder.ledger.timeline(), "clock": clock}
        if self.recorder is not None:
            self.end_recording()
        kept = turns.keep(times)
        if kept is not None:
            self.write(result, kept, output)

    def base(self) -> Any:
        """Return the communicator of the first ranks; made when a client comes, and again after a failure."""
        token = self.header["base"]
        if token not in _bases:
            group = _WORLD.Get_group().Incl(list(range(self.header["ranks"])))
            # All of these ranks have just answered the client, so nobody is missing in this blocking call.
            _bases[token] = _WORLD.Create_group(group, zlib.crc32(token.encode()) % 32768)
        return _bases[token]

    def communicator(self, base: object, repetition: int) -> None:
        """Make the repetition's own communicators, and let mpi4py's names mean them."""
        made, request = _Idup(base)
        finish(request)
        if WAITING.page is not None:
            WAITING.page.name(made, self.header["ranks"], f"{self.header['run']}/{repetition}")
        own = [interruptible(made), interruptible(_SELF.Dup())]
        self.comms += own
        MPI.COMM_WORLD, MPI.COMM_SELF = own

    def record_calls(self, machine: RankContext) -> None:
        """Stand between the program and its interruptible calls."""
        from labkit.real.program import dumps
        from labkit.trace.recorder.recorder import Recorder

        instead = {**CLASSES, MPI.Message: Message}
        recorder = Recorder(MPI, **self.header["recording"], instead=instead, disown=disown)
        self.recorder = recorder
        recorder.install(dumps, pickle.loads)
        machine.charge, machine.is_measured = recorder.compute, recorder.is_measured
        machine.mark = lambda name, begins: recorder.mark(self.rank, name, begins)

    def end_recording(self) -> None:
        """Put mpi4py's names back, and keep the lines."""
        self.recorder.uninstall()
        if self.recorder.ledger.has_lines:
            self.trace = self.recorder.ledger.log.lines(), self.recorder.record()
        self.recorder = None

    def meter(self, base: object) -> Any:
        """Return what compares the ranks' clocks, where times are recorded."""
        if self.recorder is None or not self.recorder.ledger.has_times:
            return None
        from labkit.timing.clocks import ClockMeter

        return ClockMeter(interruptible(base))

    @contextlib.contextmanager
    def program(self) -> Iterator[None]:
        """Let an interrupt be raised wherever the program is."""
        self.interrupts.is_in_program = True
        try:
            yield
        finally:
            self.interrupts.is_in_program = False

    def write(self, result: object, times: dict[str, object], output: BinaryIO) -> None:
        """Keep one repetition."""
        flush_streams()
        times["printed_bytes"] = os.fstat(output.fileno()).st_size
        packed = io.BytesIO()
        with self.program():
            pack_result(result, packed, self.rank)
        self.shares.append((times, packed.getvalue()))

    def look_for_leftovers(self) -> None:
        """Find messages that nobody received, after a barrier: they have arrived by then."""
        status = MPI.Status()
        comms = self.comms = self.comms + take_contexts() + WAITING.freed
        for _ in range(3):  # each look also lets MPI take in what has arrived
            for comm in comms:
                if _Iprobe(comm, status=status):
                    self.leftover.append((status.Get_source(), status.Get_tag()))
            if self.leftover:
                break
        WAITING.tidy()
        if not self.leftover and not WAITING.pending:
            _quarantine[self.header["run"]] = comms
            self.is_clean = True

    # -- the report ---------------------------------------------------------------------------------------

    def record(self, kind: str, text: str = "") -> dict[str, object]:
        """Describe how it ended."""
        return {
            "rank": self.rank,
            "kind": kind,
            "text": text,
            "time": time.monotonic(),
            "place": self.interrupts.place,
            "has_finished": self.has_finished,
            "shares": self.shares,
            "leftover": self.leftover,
            "is_clean": self.is_clean,
            "reason": "",
            "output": b"",
            "trace": self.trace,
            "abort_code": None if WAITING.aborted is None else WAITING.aborted.args[0],
        }

    def failure(self, error: BaseException) -> dict[str, object]:
        """Explain why it failed."""
        if self.interrupts.count:
            return self.record("interrupted")
        if WAITING.aborted is not None:
            return self.record("abort", f"aborted all ranks with error code {WAITING.aborted.args[0]}")
        if isinstance(error, ResultError):
            return self.record("result", str(error))
        if isinstance(error, SystemExit):
            last = f"the rank called sys.exit({error.code!r})"
            return self.record("exit", f"{traceback_without(error, is_framework).rstrip()}\n{last}")
        record = self.record("exception", traceback_without(error, is_framework))
        return {**record, "code": code_of(error)}


def _read(output: BinaryIO, most: int) -> bytes:
    output.seek(0)
    return output.read(most)
