"""One simulated run: ranks over the hub, and every way in which it can end."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, NoReturn, Protocol

from labkit import _kernels
from labkit.comm import environment
from labkit.comm.collective.calls import CollectiveCalls
from labkit.comm.handles.exceptions import RunEnded
from labkit.errors import (
    MORE_TIME,
    DeadlockError,
    LabkitError,
    MachineError,
    MismatchError,
    RankError,
    RunInterrupted,
    TimeLimitError,
    code_of,
)
from labkit.local.costs import KernelCosts, find_calibration
from labkit.program import context
from labkit.program.rank_counts import Tally
from labkit.selector import Choices, selector_of
from labkit.sim import deadlock
from labkit.sim.isolation import host_clock
from labkit.sim.isolation.waits import Interruptions, RankWaits, owner_of_thread
from labkit.sim.measured import Measured
from labkit.sim.output import RankOutput
from labkit.sim.rank_context import RankContext
from labkit.sim.where import (
    innermost_frame,
    is_raised_by_statement,
    lines_of,
    place_of,
    trimmed_stack,
    trimmed_traceback,
)
from labkit.text.progress import Live
from labkit.text.units import format_seconds

__all__ = ["Simulation", "TimeLimit", "TimeUp", "running"]


# The time limit of a simulated run: it also ends ranks that never come back.


_AGAIN_S = 0.1
_PATIENCE = 20
_REPORT_FRAMES = 200


class TimeUp(BaseException):
    """Unwinds the running rank when the time limit has passed."""


class Limited(Protocol):
    """What the limit needs of a simulation."""

    hub: _kernels.Hub

    def time_up(self, frame: FrameType | None) -> None:
        """Note that time is up, once, with the frame that was running."""


class TimeLimit:
    """Context in which a simulation may take so much host time.

    `seconds`: None for no limit.
    """

    def __init__(self, simulation: Limited, seconds: float | None) -> None:
        self._simulation = simulation
        self._seconds = seconds
        self._knocks = 0
        self._is_reporting = False
        self._has_knocked = False
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._is_signal = False
        self._before: Any = None
        self._timer_before = (0.0, 0.0)
        self._began = 0.0

    def __enter__(self) -> TimeLimit:
        if self._seconds is None:
            return self
        self._began = host_clock.monotonic()
        self._simulation.hub.set_limit(self._seconds, self._passed)
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
            self._is_signal = True
            self._before = signal.signal(signal.SIGALRM, self._on_alarm)
            self._timer_before = host_clock.setitimer(signal.ITIMER_REAL, self._seconds, _AGAIN_S)
        else:
            thread = threading.get_ident()
            threading.Thread(target=self._watch, args=(thread,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._seconds is None:
            return
        if self._is_signal:
            host_clock.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self._before)
            left, interval = self._timer_before
            if left:  # somebody else's timer: give it what is left of its time
                left = max(left - (host_clock.monotonic() - self._began), 1e-3)
                host_clock.setitimer(signal.ITIMER_REAL, left, interval)
            return
        with self._lock:
            self._is_over.set()
        if self._has_knocked:
            _take_pending()

    def _passed(self) -> None:
        """Raise from the engine's loops, where no rank's code runs."""
        self._simulation.time_up(None)
        raise TimeUp

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        if self._simulation.hub.rank < 0 or self._is_reporting:
            return  # the engine's loops see it themselves; a report on many ranks outlasts a knock
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + _REPORT_FRAMES)  # a rank that has used up its stack is reported, too
        self._is_reporting = True
        try:
            self._simulation.time_up(frame)
        finally:
            self._is_reporting = False
            sys.setrecursionlimit(limit)
        self._knocks += 1
        if self._knocks > _PATIENCE:
            self._knocks = 0
            self._simulation.hub.abandon()
        raise TimeUp

    def _watch(self, thread: int) -> None:
        assert self._seconds is not None
        if self._is_over.wait(self._seconds):
            return
        while True:
            with self._lock:
                if self._is_over.is_set():
                    return
                if self._simulation.hub.rank >= 0:
                    self._simulation.time_up(sys._current_frames().get(thread))
                    self._has_knocked = True
                    _raise_in(thread, TimeUp)
            if self._is_over.wait(_AGAIN_S):
                return


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    """Raise an exception in a thread as soon as it runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def _take_pending() -> None:
    """Take the exception that may still be pending in this thread.

    CPython lowers the flag of a pending exception only when one is raised: taken back unraised (with NULL),
    the flag would stay up, and under a tracer CPython 3.11 then repeats one instruction for ever.
    """
    with contextlib.suppress(TimeUp):
        _raise_in(threading.get_ident(), TimeUp)
        for _ in range(1000):  # it comes with one of the next jumps
            pass


_local = threading.local()
#: containers that each rank may make before garbage is looked for
_OBJECTS_PER_RANK = 64


def running() -> Simulation | None:
    """Return the simulation whose rank runs on this thread, None outside any."""
    if _kernels.current_rank() < 0:
        return None
    stack: list[Simulation] | None = getattr(_local, "stack", None)
    return stack[-1] if stack else None


@contextlib.contextmanager
def _patient_collector(ranks: int) -> Iterator[None]:
    """Let Python look for garbage less often: what many live ranks hold would be searched again and again.

    Measured: a third of an allreduce's time at 4096 ranks. The garbage of ranks that make cycles stays until
    there are some thousand bytes of it for each rank.
    """
    before = gc.get_threshold()
    if before[0] > 0:
        gc.set_threshold(max(before[0], _OBJECTS_PER_RANK * ranks), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Simulation:
    """Ranks of one program on one simulated machine.

    `platform`: Compiled for the number of ranks.
    `trace`: Keep every message.
    `timeout_s`: Limit of host time.
    `choices`: Chooses the collectives' algorithms; default: as MPI libraries do.
    `tolerance`: Relative error of the capacities allowed on links with many messages; 0: exact.
    `calibration`: What node-local work costs; default: the calibration in use.
    `has_counts`: Count what the ranks send, count and hold: `labkit.program.rank_counts`.
    `is_whole`: Whether the ranks have this process for themselves.
    `spare_ranks`: How many more may be spawned.
    `measured`: How the host's CPU time is charged; default: only where a program samples.
    """

    def __init__(
        self,
        platform: Any,
        model: Any,
        ranks: int,
        *,
        trace: bool = False,
        timeout_s: float | None = None,
        choices: Choices | None = None,
        tolerance: float = 0.0,
        calibration: KernelCosts | None = None,
        measured: Measured | None = None,
        has_counts: bool = False,
        is_whole: bool = False,
        spare_ranks: int = 0,
    ) -> None:
        self.ranks = ranks
        self.calibration = find_calibration(calibration)
        spare = {"spare_ranks": spare_ranks} if spare_ranks else {}
        self.hub = _kernels.Hub(platform, model, trace, tolerance, **spare)
        self.calls = CollectiveCalls(self.hub, choices or Choices(selector_of()))
        measured = measured or Measured(is_everything=False)
        if measured.is_everything:
            self._measure(measured)
        self.context = RankContext(self.hub, ranks, self.calls, self.calibration, measured)
        self.calls.note_fault = self.context.note
        #: what its ranks call, while it is traced (`labkit.sim.calls`)
        self.call_notes: Any = None
        #: what is looked at, while it is checked (`labkit.sim.checks`)
        self.checks: Any = None
        if has_counts:
            self.hub.keep_counts()
            self.context.tally = Tally(self.hub.rank_counts)
        self.output = RankOutput(ranks, is_whole)
        #: what runs, and where
        self.title = f"{ranks} simulated ranks"
        #: ends this process with a failure, where it is the run's alone
        self.leave: Callable[[BaseException], NoReturn] | None = None
        #: what ranks wait for of their own process, by rank; and what begins with their first thread
        self.waits: dict[int, RankWaits] = {}
        self.thread_calls: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
        self._threaded, self._has_threads = contextlib.ExitStack(), False
        self._thread = threading.get_ident()
        #: lets ranks wait for each other in memory that they share
        self.shared_memory = Interruptions(self)
        self.calls.shares_memory = self.shared_memory.begin
        self.context.waits, self.context.own_waits = self.waits, self.own_waits
        #: a call of a thread that could not be made
        self._thread_call: RankError | None = None
        self.results: list[Any] = [None] * ranks
        #: when ranks that were spawned began, by rank
        self.spawned_s: dict[int, float] = {}
        self.timeout_s = timeout_s
        self._deadline_s: float | None = None
        self._main: Callable[[int], object] | None = None
        self._failure: BaseException | None = None

    def own_waits(self) -> RankWaits:
        """Return what the running rank waits for within its own process."""
        rank = self.hub.rank
        found = self.waits.get(rank)
        if found is None:
            found = self.waits[rank] = RankWaits(self, rank)
        return found

    def _measure(self, measured: Measured) -> None:
        """Charge what the ranks' code takes, or what it once took."""
        if measured.replay is None:
            self.hub.measure_host(measured.flops_per_cpu_s)
        elif measured.replay.ranks == self.ranks:
            self.hub.replay_host(measured.replay.stretches, measured.flops_per_cpu_s)
        else:
            raise MachineError(
                f"the computation was recorded on {measured.replay.ranks} ranks, and this run has "
                f"{self.ranks}; record it again, or where ranks are spawned measure it each time: theirs is "
                "not charged again",
                code="not-comparable",
            )

    def tolerance_use(self) -> dict[str, Any]:
        """Return what the tolerance came to, by the names of `labkit.checks.ToleranceUse`."""
        use = self.hub.tolerance_use()
        del use["repairs"]
        return use

    # --- the run ------------------------------------------------------------------------------------

    def run(self, main: Callable[[int], object]) -> None:
        """Run ``main(rank)`` on every rank.

        Raises RankError, DeadlockError, TimeLimitError, MismatchError, KeyboardInterrupt: After every rank
            has been unwound.
        """
        self._main = main
        self._deadline_s = None if self.timeout_s is None else host_clock.monotonic() + self.timeout_s
        try:
            live = Live(self.title, self._status, self.output.last_lines)
            self.output.is_watched = live.is_on
            with (
                self._threaded,
                self.output,
                _patient_collector(self.ranks),
                live,
                TimeLimit(self, self.timeout_s),
            ):
                self._run()
        finally:
            self.shared_memory.end()
            for waits in self.waits.values():
                waits.close()
            self.context.swaps.close()
            self._main = None
            self.hub.close()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            if isinstance(failure, LabkitError):
                failure.attach_output(self.output.texts())
            raise failure

    def _run(self) -> None:
        # before and after it a rank of another run, which started this one, may be the running one
        stack: list[Simulation] = _local.__dict__.setdefault("stack", [])
        stack.append(self)
        try:
            self._run_ranks()
        finally:
            stack.pop()

    def _run_ranks(self) -> None:
        try:
            outcome = self.hub.run(self._rank_main)
        except BaseException as error:
            self._fail(error)
            outcome = "stopped"
        if outcome == "deadlock":
            found = deadlock.deadlock_of(self.hub, self.calls)
            for text in (text for waits in self.waits.values() for text in waits.left()):
                found.add_note(text)
            self._failure = self._failure or found
            report = str(found)
            self.hub.set_ending(lambda: DeadlockError(report))
        if outcome != "finished":
            # Ranks of a script are processes: they are killed, and print nothing while they end here.
            self.output.is_over = self.output.is_over or (self.output.is_whole and outcome == "stopped")
            with contextlib.suppress(TimeUp):  # its limit is noted; it knocks until the run is over
                self.hub.unwind()

    def _status(self) -> str:
        """Return as text how far the run is."""
        hub = self.hub
        return f"simulated clock {format_seconds(hub.makespan)}, {hub.messages:,} messages"

    def _rank_main(self, rank: int) -> None:
        assert self._main is not None
        self.hub.skip_host()
        if rank >= self.ranks:
            self.spawned_s[rank] = float(self.hub.clock(rank))
        if self.context.tally is not None:
            self.context.tally.begin(rank)
        try:
            result = self._main(rank)
            if rank < self.ranks:
                self.results[rank] = result
            if rank in self.waits:
                self.waits[rank].join()
            self.hub.catch_up_host()
        except SystemExit as error:
            if error.code is not None and error.code != 0:
                self._fail(error)
        except BaseException as error:
            self._fail(error)

    # --- how it can end -----------------------------------------------------------------------------

    def abort(self, rank: int, code: int) -> NoReturn:
        """End the run as MPI_Abort does: the calling rank never goes on, and prints nothing more.

        In the process of a script, which has no other purpose, no rank does.
        """
        if self._failure is None:
            trace = f"{trimmed_stack(sys._getframe(1))}MPI_Abort({code})\n"
            text = f"rank {rank} aborted all ranks with error code {code}"
            self._failure = RankError(rank, trace, f"{text}\n{trace}", abort_code=code)
        if self.leave is not None:
            if isinstance(self._failure, LabkitError):
                self._failure.attach_output(self.output.texts())
            self.leave(self._failure)
        self.output.is_over = True
        if not self.hub.is_ending:
            self.hub.set_ending(RunEnded)
        self.hub.stop()
        if self.hub.rank >= 0 and running() is self:
            self.hub.abandon()
        raise RunEnded("the run is ending")  # an operator that the engine calls; a thread of a rank

    def _fail(self, error: BaseException) -> None:
        """Note the first failure and end the run; later ones are consequences of it."""
        if self._struck_without_room(error):
            self.time_up(innermost_frame(error))
            return
        # an error of what the engine calls (the end of a transfer) has ended the run before this report
        if self._failure is None and (not self.hub.is_ending or isinstance(error, Exception)):
            self._failure = self._as_failure(error)
        if not self.hub.is_ending:
            self.hub.set_ending(RunEnded)
        self.hub.stop()

    # --- threads of ranks ---------------------------------------------------------------------------

    def begin_threads(self) -> None:
        """Let ranks make their threads' calls of MPI, from the first thread on until the run is over."""
        if not self._has_threads:
            self._has_threads = True
            self._threaded.enter_context(self.thread_calls())

    def where_it_runs(self) -> Any:
        """Return what changes while this thread is at work: its place and the CPU time that it has used."""
        frame = sys._current_frames().get(self._thread)
        if frame is None or not hasattr(time, "pthread_getcpuclockid"):
            return None
        used = host_clock.clock_gettime(time.pthread_getcpuclockid(self._thread))
        return id(frame), frame.f_lasti, round(used, 3)

    def refuse_thread_call(self, rank: int, text: str) -> None:
        """End the run: a thread's call cannot be made."""
        if self._thread_call is None:
            self._thread_call = RankError(rank, text, text)
            if self._thread == threading.main_thread().ident and self.timeout_s is not None:
                signal.pthread_kill(self._thread, signal.SIGALRM)  # what the time limit listens to

    def _struck_without_room(self, error: BaseException) -> bool:
        """Whether the time limit struck where no stack was left for its handler, which then did not run."""
        is_late = self._deadline_s is not None and host_clock.monotonic() >= self._deadline_s
        return isinstance(error, RecursionError) and is_late and self._failure is None

    def _as_failure(self, error: BaseException) -> BaseException:
        rank = self.hub.rank
        if isinstance(error, KeyboardInterrupt) and not (rank >= 0 and is_raised_by_statement(error)):
            return RunInterrupted(self.output.texts())
        if isinstance(error, MismatchError | DeadlockError):
            return error
        if rank < 0:
            return error if isinstance(error, LabkitError) else RankError(-1, trimmed_traceback(error))
        text = trimmed_traceback(error)
        if isinstance(error, SystemExit):
            code = int(error.code) if isinstance(error.code, int) else f"1: {error.code}"  # as Python does
            return RankError(rank, text, f"rank {rank} left with exit code {code}\n{text}")
        return RankError(rank, text, code=code_of(error))

    def time_up(self, frame: FrameType | None) -> None:
        """End the run because its time limit has passed."""
        if self._failure is not None or self.hub.is_ending:
            return
        report = self._where(frame)
        late = TimeLimitError(
            f"the run took more than its time limit of {self.timeout_s:g} s of host time; {MORE_TIME}\n"
            f"{report}"
        )
        self._failure = self._thread_call or late
        self.hub.set_ending(RunEnded)
        self.hub.stop()

    def _where(self, frame: FrameType | None) -> str:
        """Return as text where every rank is."""
        self.hub.freeze(True)
        lines = lines_of(self._states(frame))
        self.hub.freeze(False)
        return "\n".join(lines)

    def _states(self, frame: FrameType | None) -> Iterator[tuple[int, str]]:
        current = self.hub.rank
        for rank in range(self.hub.ranks):
            state = self.hub.state(rank)
            if rank == current and frame is not None:
                yield rank, f"running at {place_of(frame)}"
            elif state in ("finished", "not started"):
                yield rank, state
            else:
                yield rank, deadlock.waiting_of(self.hub, self.calls, rank).text


def _find() -> RankContext | None:
    """Return the context of `running`, without a call of it: programs call this at every phase."""
    stack: list[Simulation] | None = getattr(_local, "stack", None) if _kernels.current_rank() >= 0 else None
    return stack[-1].context if stack else None


def _own_job() -> Callable[[int], NoReturn] | None:
    stack: list[Simulation] | None = getattr(_local, "stack", None)
    if stack:  # also in an operator that the engine calls
        return functools.partial(stack[-1].abort, stack[-1].hub.rank)
    owner = owner_of_thread()
    return owner.abort if owner is not None else None


context.find_simulated = _find
environment.find_job = _own_job
