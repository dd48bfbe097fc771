"""One point of a sweep: run it, turn it into rows, and decide whether other seeds would say anything else.

What happens at a point depends on nothing but the point, so it can happen in another process.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from labkit.errors import LabkitError
from labkit.real.repeat import measuring
from labkit.result.uncharged import Uncharged
from labkit.run import machine_of
from labkit.study.points import Point, is_real
from labkit.study.rows import run_rows
from labkit.timing.repeats import Repeats, Series, repeats_of

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = ["Found", "Job"]


#: options of the simulated points, which real ones beside them do not have
_SIMULATED = ("tolerance", "calibration", "compute")


@dataclass
class Found:
    """What came of one point.

    Attributes
    ----------
    rows : list
        The rows of each repetition; an exception in place of those that the caller's `measure` failed on.
    failure : LabkitError or None
        Why the run behind these repetitions failed.
    is_same : bool or None
        Whether two seeds gave the same time; None where that was not tried, or says nothing.
    is_complete : bool
        Whether all repetitions count, whatever other points have shown.
    on : str
        The machine's name.
    machine : dict
        Its description.
    notes : list of str
        Those of the first repetition.
    printed : tuple of str
        What was printed outside the ranks: standard output and error, in another process only.
    order : int
        In another process only, by which those of the same hash seed know each other
        (`labkit.study.hash_seed`).
    conduct : dict or None
        How a real measurement was conducted: `labkit.timing.Conduct` as plain data.
    uncharged : Uncharged
        What all repetitions computed without being charged.
    """

    rows: list[list[dict[str, Any]] | Exception] = field(default_factory=list)
    failure: LabkitError | None = None
    is_same: bool | None = None
    is_complete: bool = False
    on: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    printed: tuple[str, str] = ("", "")
    order: int = 0
    conduct: dict[str, Any] | None = None
    uncharged: Uncharged = field(default_factory=Uncharged)


@dataclass(frozen=True)
class Job:
    """What all points of a sweep have in common; see `labkit.study.sweep`."""

    program: Any
    args: tuple[Any, ...]
    repeats: int
    warmup: int
    seed: int
    timeout_s: float | None
    options: dict[str, Any]
    measure: Callable[[Run], Mapping[str, float]] | None
    runner: Callable[..., Run] | None
    #: when enough repetitions were made; None: 5 where a machine does not decide, else `Repeats()`
    asked: Repeats | None = None
    #: what runs the points instead of `labkit.run`, with the same options: they wait in a queue already
    waiting: Callable[..., Run] | None = None

    def find(self, point: Point, is_once: bool = False) -> Found:
        """Run one point.

        Parameters
        ----------
        point : Point
        is_once : bool
            Whether the seeds are known to change nothing, so that one simulated run says it all.
        """
        found = Found(is_complete=is_real(point.on) or self.repeats == 1)
        runs: list[Run] = []
        try:
            self._run(point, is_once, runs, found)
        except LabkitError as error:
            found.failure = error
        for repetition, run in enumerate(runs):
            found.rows.append(self._rows(run, point, repetition))
            found.uncharged.add(getattr(run, "uncharged", None) or Uncharged())
        if runs:
            found.on, found.machine, found.notes = str(runs[0].on), runs[0].machine, list(runs[0].notes)
            conduct = getattr(runs[0], "conduct", None)
            found.conduct = None if conduct is None else asdict(conduct)
        return found

    def launch(self, point: Point) -> dict[str, Any]:
        """Return the options of a point's run."""
        how: dict[str, Any] = {"args": self.args, "kwargs": point.parameters, "timeout_s": self.timeout_s}
        how |= self.options | ({"model": point.model} if point.model is not None else {})
        how |= {"on": point.on, "seed": self.seed} | point.options
        # a runner of the caller's own takes what it takes; on a real machine the warm-up is counted
        if self.runner is None and (self.warmup or not is_real(point.on)):
            how["count"] = True
        if not is_real(point.on):
            return how
        how = {name: value for name, value in how.items() if name not in _SIMULATED}
        if not self._is_measured(point):
            return how | {"repeats": self.repeats + self.warmup}
        asked = repeats_of(self.asked or self.repeats, self.timeout_s)
        return how | {"repeats": asked.most + self.warmup, "measuring": measuring(asked, self.warmup)}

    def _is_measured(self, point: Point) -> bool:
        """Whether the machine starts and repeats runs itself: not scripts, nor runs that are recorded."""
        is_recorded = self.options.get("trace") or self.options.get("trace_ti") is not None
        return callable(self.program) and not is_recorded and "measuring" in machine_of(point.on).options

    def _rows(self, run: Run, point: Point, repetition: int) -> list[dict[str, Any]] | Exception:
        try:
            extra = self.measure(run) if self.measure else None
            return run_rows(run, point.cells, repetition, extra)
        except Exception as error:  # the caller's own code
            return error

    def _run(self, point: Point, is_once: bool, runs: list[Run], found: Found) -> None:
        """Run all repetitions that are needed; those that ended are in `runs`, also when one fails."""
        from labkit.run import run as labkit_run

        runner, how = self.runner or self.waiting or labkit_run, self.launch(point)
        if is_real(point.on):
            one = runner(self.program, point.ranks, **how)
            every = one.repetitions or [one]
            runs += every[self.warmup if one.repetitions else 0 :]
            if one.repetitions and self.runner is None:
                runs[0].counts = every[0].counts
            return
        if self.repeats == 1 or is_once:
            runs.append(runner(self.program, point.ranks, **how))
            return
        series = Series(repeats_of(self.asked or self.repeats, self.timeout_s))
        began = time.monotonic()
        for k in itertools.count():
            runs.append(runner(self.program, point.ranks, **(how | {"seed": self.seed + k})))
            # Rare noise may spare the first two runs; it is drawn from the seed all the same.
            is_quiet = "noise" not in runs[0].machine
            is_same = k == 1 and is_quiet and runs[0].makespan_s == runs[1].makespan_s
            if k == 1 and point.ranks > 1:  # one rank alone may well not show what the seed does
                found.is_same = is_same
            if is_same:
                del runs[1:]
                return
            series.take(runs[k].makespan_s, 0.0, time.monotonic() - began)
            if series.stopped:
                return
