"""An engine's part of a run: it takes the program, runs it, and reports what happened.

`execute` never raises and never returns before the engine is as it was. Messages of one run cannot reach
another one: each repetition has a duplicate of the ranks' communicator. It is freed some runs later, and only
when no rank found a message or a request left over; else it stays, which costs a little memory.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import platform
import tempfile
import time
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from mpi4py import MPI as MPI4PY

import labkit
from labkit import context
from labkit.process.stacks import is_framework, traceback_without
from labkit.real.context import RankContext
from labkit.real.cores import available_cores
from labkit.real.engines.comm import CLASSES, interruptible, take_contexts
from labkit.real.engines.noted import WaitPage
from labkit.real.engines.stage import Interrupts, count_threads, own_interrupts, stage, stand_by
from labkit.real.engines.waits import WAITING, Message, disown, finish
from labkit.real.engines.watchdog import Watchdog
from labkit.real.program import ResultError, flush_streams, library_of, load_program, pack_result, until_exit
from labkit.real.repeat import Turns

__all__ = ["describe", "execute"]

#: untyped: names of the module are replaced during a run, and classes mixed into its own
MPI: Any = MPI4PY

#: the first ranks of the world, by the token of the client that uses them
_bases: dict[str, Any] = {}
#: communicators of runs that ended well, by run: they are freed when the client says so
_quarantine: dict[str, list[Any]] = {}

_WORLD, _SELF = MPI.COMM_WORLD, MPI.COMM_SELF
_Idup, _Ibarrier, _Iprobe, _Free = MPI.Comm.Idup, MPI.Comm.Ibarrier, MPI.Comm.Iprobe, MPI.Comm.Free


def describe() -> dict[str, Any]:
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

    Parameters
    ----------
    header : dict
        What the run is: see `labkit.real.engines.machine`.
    payload : bytes
        The pickled program and its arguments.

    Returns
    -------
    dict
        ``kind`` (done, interrupted, exception, exit, abort, result, machine), ``time``, ``text``,
        ``place`` (the program's frames when it was interrupted), ``shares`` (per repetition its times and
        its pickled result), ``output`` (bytes), ``leftover`` (messages never received), ``threads``,
        ``trace`` (of a recorded run, what the rank has noted: lines, and what they mean).
    """
    interrupts = Interrupts()
    with own_interrupts(interrupts):
        return _execute(header, payload, interrupts)


def _execute(header: dict[str, Any], payload: bytes, interrupts: Interrupts) -> dict[str, Any]:
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
        finally:
            context.install(None)
            if self.recorder is not None:
                self.end_recording()
        self.has_finished = True
        if WAITING.page is not None:
            WAITING.page.finish()
        finish(_Ibarrier(base))
        self.look_for_leftovers()

    def base(self) -> Any:
        """Return the communicator of the first ranks; made when a client comes, and anew after a failure."""
        token = self.header["base"]
        if token not in _bases:
            group = _WORLD.Get_group().Incl(list(range(self.header["ranks"])))
            # All of these ranks have just answered the client, so nobody is missing in this blocking call.
            _bases[token] = _WORLD.Create_group(group, zlib.crc32(token.encode()) % 32768)
        return _bases[token]

    def communicator(self, base: Any, repetition: int) -> None:
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
        from labkit.real.mpi.messages import dumps
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

    def meter(self, base: Any) -> Any:
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

    def write(self, result: Any, times: dict[str, Any], output: BinaryIO) -> None:
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

    def record(self, kind: str, text: str = "") -> dict[str, Any]:
        """Say how it ended."""
        return {
            "rank": self.rank, "kind": kind, "text": text, "time": time.monotonic(),
            "place": self.interrupts.place, "has_finished": self.has_finished, "shares": self.shares,
            "leftover": self.leftover, "is_clean": self.is_clean, "reason": "", "output": b"",
            "trace": self.trace, "abort_code": None if WAITING.aborted is None else WAITING.aborted.args[0],
        }  # fmt: skip

    def failure(self, error: BaseException) -> dict[str, Any]:
        """Say why it failed."""
        if self.interrupts.count:
            return self.record("interrupted")
        if WAITING.aborted is not None:
            return self.record("abort", f"aborted all ranks with error code {WAITING.aborted.args[0]}")
        if isinstance(error, ResultError):
            return self.record("result", str(error))
        if isinstance(error, SystemExit):
            last = f"the rank called sys.exit({error.code!r})"
            return self.record("exit", f"{traceback_without(error, is_framework).rstrip()}\n{last}")
        return self.record("exception", traceback_without(error, is_framework))


def _read(output: BinaryIO, most: int) -> bytes:
    output.seek(0)
    return output.read(most)
