"""One simulated run: ranks over the hub, and every way in which it can end."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from labkit import _kernels, context
from labkit.comm.collective.calls import CollectiveCalls
from labkit.comm.environment import AbortError
from labkit.comm.handles.exceptions import RunEnded
from labkit.errors import DeadlockError, LabkitError, MismatchError, RankError, TimeLimitError
from labkit.local.costs import KernelCosts, find_calibration
from labkit.selector import Selector, selector_of
from labkit.sim import deadlock
from labkit.sim.limit import TimeLimit, TimeUp
from labkit.sim.measured import Measured
from labkit.sim.output import RankOutput
from labkit.sim.rank_context import RankContext
from labkit.sim.where import innermost_frame, lines_of, place_of, trimmed_traceback
from labkit.tally import Tally

__all__ = ["Simulation", "running"]

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

    Parameters
    ----------
    platform : labkit._kernels.Platform
        Compiled for the number of ranks.
    model : labkit._kernels.Model
    ranks : int
    trace : bool
        Keep every message.
    timeout_s : float or None
        Limit of host time.
    selector : Selector, optional
        Chooses the collectives' algorithms.
    machine : str
        The platform's spec, which a choice may depend on.
    tolerance : float
        Relative error of the capacities allowed on links with many messages; 0: exact.
    calibration : KernelCosts, optional
        What node-local work costs; default: the calibration in use.
    has_counts : bool
        Count what the ranks send, count and hold: `labkit.tally`.
    measured : Measured, optional
        How the host's CPU time is charged; default: only where a program samples.
    """

    def __init__(
        self,
        platform: Any,
        model: Any,
        ranks: int,
        *,
        trace: bool = False,
        timeout_s: float | None = None,
        selector: Selector | None = None,
        machine: str = "",
        tolerance: float = 0.0,
        calibration: KernelCosts | None = None,
        measured: Measured | None = None,
        has_counts: bool = False,
    ) -> None:
        self.ranks = ranks
        self.calibration = find_calibration(calibration)
        self.hub = _kernels.Hub(platform, model, trace, tolerance)
        self.calls = CollectiveCalls(self.hub, selector or selector_of(), machine)
        measured = measured or Measured(is_everything=False)
        if measured.is_everything:
            self.hub.measure_host(measured.flops_per_cpu_s)
        self.context = RankContext(self, measured)
        #: what its ranks call, while it is traced (`labkit.sim.calls`)
        self.call_notes: Any = None
        if has_counts:
            self.hub.keep_counts()
            self.context.tally = Tally(self.hub.rank_counts)
        self.output = RankOutput(ranks)
        self.results: list[Any] = [None] * ranks
        self.timeout_s = timeout_s
        self._deadline_s: float | None = None
        self._main: Callable[[int], Any] | None = None
        self._failure: BaseException | None = None

    def tolerance_use(self) -> dict[str, Any]:
        """Return what the tolerance came to, by the names of `labkit.tolerance.ToleranceUse`."""
        use = self.hub.tolerance_use()
        del use["repairs"]
        return use

    # --- the run ------------------------------------------------------------------------------------

    def run(self, main: Callable[[int], Any]) -> None:
        """Run ``main(rank)`` on every rank.

        Raises
        ------
        RankError, DeadlockError, TimeLimitError, MismatchError, KeyboardInterrupt
            After every rank has been unwound.
        """
        self._main = main
        self._deadline_s = None if self.timeout_s is None else time.monotonic() + self.timeout_s
        stack: list[Simulation] = _local.__dict__.setdefault("stack", [])
        stack.append(self)
        try:
            with self.output, _patient_collector(self.ranks), TimeLimit(self, self.timeout_s):
                self._run()
        finally:
            stack.pop()
            self._main = None
            self.hub.close()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            if isinstance(failure, LabkitError):
                failure.attach_output(self.output.texts())
            raise failure

    def _run(self) -> None:
        try:
            outcome = self.hub.run(self._rank_main)
        except BaseException as error:
            self._fail(error)
            outcome = "stopped"
        if outcome == "deadlock":
            report = deadlock.describe(self.hub, self.calls)
            self._failure = DeadlockError(report)
            self.hub.set_ending(lambda: DeadlockError(report))
        if outcome != "finished":
            with contextlib.suppress(TimeUp):  # its limit is noted; it knocks until the run is over
                self.hub.unwind()

    def _rank_main(self, rank: int) -> None:
        assert self._main is not None
        self.hub.skip_host()
        if self.context.tally is not None:
            self.context.tally.begin(rank)
        try:
            self.results[rank] = self._main(rank)
            self.hub.catch_up_host()
        except SystemExit as error:
            if error.code is not None and error.code != 0:
                self._fail(error)
        except BaseException as error:
            self._fail(error)

    # --- how it can end -----------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """Note the first failure and end the run; later ones are consequences of it."""
        if self._struck_without_room(error):
            self.time_up(innermost_frame(error))
            return
        if self._failure is None and not self.hub.is_ending:
            self._failure = self._as_failure(error)
        if not self.hub.is_ending:
            self.hub.set_ending(RunEnded)
        self.hub.stop()

    def _struck_without_room(self, error: BaseException) -> bool:
        """Whether the time limit struck where no stack was left for its handler, which then did not run."""
        is_late = self._deadline_s is not None and time.monotonic() >= self._deadline_s
        return isinstance(error, RecursionError) and is_late and self._failure is None

    def _as_failure(self, error: BaseException) -> BaseException:
        rank = self.hub.rank
        if isinstance(error, KeyboardInterrupt):
            return KeyboardInterrupt()
        if isinstance(error, MismatchError):
            return error
        if rank < 0:
            return error if isinstance(error, LabkitError) else RankError(-1, trimmed_traceback(error))
        text = trimmed_traceback(error)
        if isinstance(error, AbortError):
            return RankError(rank, text, f"rank {rank} called Abort({error.code})\n{text}")
        if isinstance(error, SystemExit):
            return RankError(rank, text, f"rank {rank} left with exit code {error.code!r}\n{text}")
        return RankError(rank, text)

    def time_up(self, frame: FrameType | None) -> None:
        """End the run because its time limit has passed (see `labkit.sim.limit`)."""
        if self._failure is not None or self.hub.is_ending:
            return
        report = self._where(frame)
        self._failure = TimeLimitError(
            f"the run took more than its time limit of {self.timeout_s:g} s of host time\n{report}"
        )
        self.hub.set_ending(RunEnded)
        self.hub.stop()

    def _where(self, frame: FrameType | None) -> str:
        """Say where every rank is."""
        self.hub.freeze(True)
        lines = lines_of(self._states(frame))
        self.hub.freeze(False)
        return "\n".join(lines)

    def _states(self, frame: FrameType | None) -> Iterator[tuple[int, str]]:
        current = self.hub.rank
        for rank in range(self.ranks):
            state = self.hub.state(rank)
            if rank == current and frame is not None:
                yield rank, f"running at {place_of(frame)}"
            elif state in ("finished", "not started"):
                yield rank, state
            else:
                yield rank, deadlock.waiting_of(self.hub, self.calls, rank).text


def _find() -> RankContext | None:
    simulation = running()
    return simulation.context if simulation is not None else None


context.register_simulator(_find)
