"""One point of a sweep: run it with as many seeds as matter, and turn the runs into rows.

What happens at a point depends on nothing but the point, so it can happen in another process.
"""

from __future__ import annotations

import inspect
import itertools
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from labkit.checks import Uncharged
from labkit.errors import LabkitError
from labkit.launch.run import machine_of
from labkit.machines.noise import noise_of
from labkit.real.program import measuring
from labkit.study.points import Point, is_real
from labkit.study.rows import HOST_METRICS, run_rows
from labkit.timing.repeats import Repeats, Series, repeats_of

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = ["SEEDS", "Found", "SweepJob", "host_cost_s", "with_seed"]

#: seeds of a simulated point by default; their time is that of `host_cost_s`
SEEDS = Repeats(within=0, least=1, most=5, most_s=1.0)
#: options of the simulated points, which real ones do not have
_SIMULATED = ("tolerance", "calibration", "compute", "noise")


@dataclass
class Found:
    """What came of one point.

    `rows`: The rows of each repetition; an exception in place of those that the caller's `measure` failed on.
    `failure`: Why the run behind these repetitions failed.
    `seeds`: Whether the seed matters here: ``"unused"`` where nothing was drawn from it, ``"same"`` where two
        seeds gave the same rows, ``"differ"`` where they did not, or do not elsewhere, ``"chance"`` where
        they did not though nothing was drawn from the seed; empty where that was not tried.
    `collectives`: Operation -> number of ranks -> names of the algorithms that it took.
    `fewer`: The number of seeds, where the runs were too expensive for all of them; else 0.
    `on`: The machine's name.
    `machine`: Its description.
    `notes`: Those of the first repetition.
    `printed`: What was printed outside the ranks: standard output and error, in another process only.
    `order`: In another process only, by which those of the same hash seed know each other
        (`labkit.study.worker_setup`).
    `conduct`: How a real measurement was conducted: `labkit.timing.Conduct` as plain data.
    `uncharged`: What all repetitions computed without being charged.
    `effort`: CPU seconds ("cpu_s") of the process that ran them and of its children, and the peak memory of
        one of them up to then ("peak_bytes").
    """

    rows: list[list[dict[str, Any]] | Exception] = field(default_factory=list)
    failure: LabkitError | None = None
    seeds: str = ""
    collectives: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    fewer: int = 0
    on: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    printed: tuple[str, str] = ("", "")
    order: int = 0
    conduct: dict[str, Any] | None = None
    uncharged: Uncharged = field(default_factory=Uncharged)
    effort: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SweepJob:
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
    #: when enough repetitions were made on a real machine, and of a simulation; None: after `repeats` of them
    asked: Repeats | None = None
    asked_simulated: Repeats | None = None
    #: the number of the point that runs with two seeds even if it draws nothing from them: a program may draw
    #: from the operating system
    probe: int | None = None
    #: whether the seeds are known to matter, so that each simulated point runs with all of them
    is_every: bool = False
    #: what runs the points instead of `labkit.run`, with the same options: they wait in a queue already
    waiting: Callable[..., Run] | None = None

    def find(self, point: Point) -> Found:
        """Run one point."""
        began_s, _ = _used()
        found = Found(seeds="differ" if self.is_every and not is_real(point.on) else "")
        runs: list[Run] = []
        try:
            self._run(point, runs, found)
        except LabkitError as error:
            found.failure = error
        for repetition, run in enumerate(runs):
            if repetition >= len(found.rows):
                found.rows.append(self._rows(run, point, repetition))
            found.uncharged.add(getattr(run, "uncharged", None) or Uncharged())
        if runs:
            found.on, found.machine, found.notes = str(runs[0].on), runs[0].machine, list(runs[0].notes)
            conduct = getattr(runs[0], "conduct", None)
            found.conduct = None if conduct is None else asdict(conduct)
            for at, name in getattr(runs[0], "collectives", {}).items():
                names = found.collectives.setdefault(at.operation, {}).setdefault(at.ranks, [])
                names += [name] if name not in names else []
        cpu_s, peak_bytes = _used()
        found.effort = {"cpu_s": round(cpu_s - began_s, 3), "peak_bytes": peak_bytes}
        return found

    def launch(self, point: Point) -> dict[str, Any]:
        """Return the options of a point's run."""
        how: dict[str, object] = {"args": self.args, "kwargs": point.parameters, "timeout_s": self.timeout_s}
        how |= self.options | ({"model": point.model} if point.model is not None else {})
        how |= {"on": point.on, "seed": self.seed} | point.options
        how["kwargs"] = with_seed(self.program, self.args, point.parameters, self.seed)
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

    def _run(self, point: Point, runs: list[Run], found: Found) -> None:
        """Run all repetitions that are needed; those that ended are in `runs`, also when one fails."""
        from labkit.launch.run import run as labkit_run

        runner, how = self.runner or self.waiting or labkit_run, self.launch(point)
        if is_real(point.on):
            one = runner(self.program, point.ranks, **how)
            every = one.repetitions or [one]
            runs += every[self.warmup if one.repetitions else 0 :]
            if one.repetitions and self.runner is None:
                runs[0].counts = every[0].counts
            return
        series = Series(repeats_of(self.asked_simulated or self.repeats, self.timeout_s))
        cost_s, is_unseeded = 0.0, False
        for k in itertools.count():
            how["kwargs"] = with_seed(self.program, self.args, point.parameters, self.seed + k)
            run = runner(self.program, point.ranks, **(how | {"seed": self.seed + k}))
            runs.append(run)
            if k == 0 and self.repeats > 1 and not self.is_every:
                found.seeds, is_unseeded = self._first_look(run, point)
                if found.seeds == "unused":
                    return
            if k == 1 and not found.seeds:
                found.rows = [self._rows(one, point, number) for number, one in enumerate(runs)]
                if _is_same(*found.rows):
                    found.seeds = "unused" if is_unseeded else "same"
                    del runs[1:], found.rows[1:]
                    return
                found.seeds = "chance" if is_unseeded else "differ"
            cost_s += host_cost_s(run)
            series.take(run.makespan_s, 0.0, cost_s * (k + 2) / (k + 1))  # with the next one
            if series.stopped:
                found.fewer = k + 1 if series.stopped == "time" else 0
                return

    def _first_look(self, run: Run, point: Point) -> tuple[str, bool]:
        """Return what the first run shows about the seeds (`Found.seeds`), and whether it draws nothing."""
        if "noise" in run.machine and noise_of(self.launch(point).get("noise")).seed is None:
            return "differ", False  # rare noise may spare the first two runs; it is drawn all the same
        called = [with_seed(self.program, self.args, point.parameters, seed) for seed in (0, 1)]
        is_drawn = getattr(run, "is_seeded", None) is not False or called[0] != called[1]
        is_unseeded = not is_drawn and bool(run.machine.get("deterministic"))
        return "unused" if is_unseeded and point.number != self.probe else "", is_unseeded


def _is_same(one: list[dict[str, object]] | Exception, other: list[dict[str, object]] | Exception) -> bool:
    """Whether the rows of two repetitions say the same, to the last bit."""
    if isinstance(one, Exception) or isinstance(other, Exception):
        return False
    said = [[(row["metric"], row["phase"], row["value"]) for row in rows] for rows in (one, other)]
    first, second = ([row for row in rows if row[0] not in HOST_METRICS] for rows in said)
    return first == second


def host_cost_s(run: Run) -> float:
    """Estimate what a simulation costs this host from what it did, so that the answer is always the same."""
    counts = getattr(run, "counts", None)
    compared = 0.0
    if counts is not None and "comparisons" in counts:
        compared = float(counts.loc[counts["phase"] == "", "comparisons"].sum())
    events = float(run.machine.get("events", 0))
    return 200e-6 * run.ranks + 5e-6 * (run.messages or 0) + 1e-6 * events + 3e-9 * compared


def with_seed(
    program: object, args: Sequence[object], parameters: Mapping[str, object], seed: int
) -> dict[str, object]:
    """Return a program's keyword arguments, with the parameter `seed` that it may have."""
    given = dict(parameters)
    if not callable(program) or "seed" in given:
        return given
    try:
        own = [*inspect.signature(program).parameters.values()][1 + len(args) :]
    except (TypeError, ValueError):  # a builtin without a signature
        return given
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    one = next((one for one in own if one.name == "seed" and one.kind in by_name), None)
    if one is None:
        return given
    if one.default is one.empty:
        return given | {"seed": seed}
    is_whole = isinstance(one.default, int) and not isinstance(one.default, bool)
    return given | ({"seed": one.default + seed} if is_whole else {})


def _used() -> tuple[float, int]:
    """Return the CPU seconds of this process and of those that it waited for, and the peak bytes of one."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used), 1024 * max(one.ru_maxrss for one in used)
