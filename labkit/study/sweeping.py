"""Sweeps: one program over every combination of ranks, machines and parameters."""

from __future__ import annotations

import inspect
import itertools
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from labkit.errors import DataError, LabkitError, MachineError
from labkit.local.calibration import find_calibration
from labkit.run.cluster_target import is_cluster
from labkit.run.tolerance import check_tolerance
from labkit.study.recipe import keep_recipe
from labkit.study.rows import FIXED, MEASURED, cell, run_rows
from labkit.study.study import Study

if TYPE_CHECKING:
    from labkit.run.result import Run

__all__ = ["sweep"]

_RESERVED = {*FIXED, *MEASURED, "ranks"}


def sweep(
    program: Callable[..., Any],
    ranks: int | Iterable[int],
    on: Any = "star",
    *,
    repeats: int = 5,
    warmup: int = 1,
    args: Sequence[Any] = (),
    model: str | Sequence[str | None] | None = None,
    seed: int = 0,
    timeout_s: float | None = 60.0,
    progress: bool | None = None,
    tolerance: float = 0.0,
    calibration: Any = None,
    measure: Callable[[Run], Mapping[str, float]] | None = None,
    options: Mapping[str, Any] | None = None,
    runner: Callable[..., Run] | None = None,
    **parameters: Any,
) -> Study:
    """Run a program at every combination of ranks, machines and parameters.

    Parameters
    ----------
    program : callable
        ``program(comm, *args, **parameters)``.
    ranks : int or iterable of int
        The numbers of ranks.
    on : str, Platform, callable, or list of them
        The machine: ``"mpi"``, a running cluster of MPI engines, or a platform; an unsized ``"star"`` grows
        with the ranks. A callable gets the number of ranks and returns the machine. A list is one more
        dimension of the sweep.
    repeats : int
        Repetitions of a point. Simulated runs are deterministic: when two seeds give the same time at the
        first point, each point runs once.
    warmup : int
        Runs on real MPI before the repetitions, in the same launch; they are thrown away.
    args : sequence
        Arguments of every run, kept out of the table.
    model : str or list, optional
        The network model of simulated runs.
    seed : int
        The first repetition's seed; real measurements are also taken in an order shuffled by it.
    timeout_s : float
        Limit of host time for each point.
    progress : bool, optional
        Whether to show a progress bar; by default when somebody watches.
    tolerance : float
        Of the simulated runs, see `labkit.run`; 0: exact. Real machines beside them have none.
    calibration : str, path or Calibration, optional
        What node-local work costs in the simulated runs, see `labkit.run`.
    measure : callable, optional
        Gets each Run and returns further metrics by name, with the unit as ending: ``{"sent_bytes": ...}``.
    options : mapping, optional
        Further options of `labkit.run`, such as ``{"coll": {"allreduce": "ring"}}``.
    runner : callable, optional
        What runs a point instead of `labkit.run`.
    **parameters
        The program's keyword arguments. A list, tuple, range or array is varied; anything else (a text
        too) is one value.

    Returns
    -------
    Study
        A point that fails, or an interrupt by the user, does not lose the others: see `Study.failures`.

    Raises
    ------
    DataError
        When there is nothing to run or a parameter has the name of a column.
    MachineError
        When the tolerance is none, or it or a calibration is given and no machine is simulated.
    LabkitError
        When every point failed: the first point's error.
    """
    plan = _plan(ranks, on, model, parameters)
    how = {
        **(options or {}),
        **_tolerance(tolerance, program, plan),
        **_calibration(calibration, program, plan),
    }
    job = _Job(
        program, tuple(args), repeats, warmup, seed, timeout_s, how, measure,
        runner or _run, {str(p): len(_varied(v)) > 1 for p, v in parameters.items()},
    )  # fmt: skip
    if any(_is_real(point.on) for point in plan):
        random.Random(seed).shuffle(plan)
    with _bar(len(plan), progress) as bar:
        for point in plan:
            bar.set_postfix_str(point.text, refresh=False)
            try:
                job.measure_point(point)
            except KeyboardInterrupt:
                job.remarks.append(f"interrupted by the user at {point.text}; the later points are missing")
                if not job.rows:
                    raise
                break
            bar.update()
    study = job.study()
    keep_recipe(study, plan, job, runner is not None)
    return study


def _tolerance(tolerance: Any, program: Any, plan: list[_Point]) -> dict[str, float]:
    """Return the option of the simulated runs, unless it is 0."""
    is_real_only = all(_is_real(point.on) for point in plan)
    if isinstance(tolerance, int | float) and tolerance == 0:
        return {}
    _require_own("tolerance", program)
    return {"tolerance": check_tolerance(tolerance, "real machines" if is_real_only else None)}


def _calibration(calibration: Any, program: Any, plan: list[_Point]) -> dict[str, Any]:
    """Return the option of the simulated runs, unless none was chosen."""
    if calibration is None:
        return {}
    _require_own("calibration", program)
    if all(_is_real(point.on) for point in plan):
        raise MachineError("calibration belongs to simulated runs, not to real machines; leave it out")
    return {"calibration": find_calibration(calibration)}


def _require_own(option: str, program: Any) -> None:
    if callable(program) and option in inspect.signature(program).parameters:
        raise DataError(
            f"{option} is the simulation's own (see labkit.run), and the program has a parameter of that "
            "name, too; give the program's another name"
        )


@dataclass(frozen=True)
class _Point:
    number: int
    ranks: int
    on: Any
    model: str | None
    parameters: dict[str, Any]

    @property
    def text(self) -> str:
        return ", ".join([f"ranks={self.ranks}", *(f"{k}={v}" for k, v in self.parameters.items())])


def _plan(ranks: Any, on: Any, model: Any, parameters: Mapping[str, Any]) -> list[_Point]:
    """Return every combination, the ranks outermost."""
    clash = sorted(set(parameters) & _RESERVED)
    if clash:
        raise DataError(f"a parameter cannot be called {clash[0]!r}: the table has a column of that name")
    counts = _varied(ranks)
    axes = [counts, _varied(on), _varied(model), *(_varied(v) for v in parameters.values())]
    if any(not axis for axis in axes):
        raise DataError("a sweep needs at least one value of ranks and of every parameter")
    for p in counts:
        if isinstance(p, bool) or not isinstance(p, int | np.integer) or p < 1:
            raise DataError(f"ranks must be whole numbers >= 1; got {p!r}")
    points = []
    for number, (p, machine, net, *values) in enumerate(itertools.product(*axes)):
        is_maker = callable(machine) and not hasattr(machine, "hosts") and not is_cluster(machine)
        where = machine(int(p)) if is_maker else machine
        points.append(_Point(number, int(p), where, net, dict(zip(parameters, values, strict=True))))
    return points


def _varied(value: Any) -> list[Any]:
    if isinstance(value, list | tuple | range | set | np.ndarray | pd.Series):
        return list(value)
    if isinstance(value, Iterator):
        return list(value)
    return [value]


def _is_real(on: Any) -> bool:
    return is_cluster(on) or (isinstance(on, str) and on.strip().lower() == "mpi")


def _run(*args: Any, **kwargs: Any) -> Run:
    from labkit.run import run

    return run(*args, **kwargs)


@dataclass
class _Job:
    program: Callable[..., Any]
    args: tuple[Any, ...]
    repeats: int
    warmup: int
    seed: int
    timeout_s: float | None
    options: dict[str, Any]
    measure: Callable[[Run], Mapping[str, float]] | None
    runner: Callable[..., Run]
    varied: dict[str, bool]
    rows: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    errors: list[LabkitError] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    machines: dict[str, Any] = field(default_factory=dict)
    is_deterministic: bool | None = None

    def measure_point(self, point: _Point) -> None:
        """Run one point and keep its rows, or its error."""
        try:
            runs = self._runs(point)
        except LabkitError as error:
            self.errors.append(error)
            self.failures.append({"point": point.text, "error": str(error).strip().splitlines()[0],
                                  "kind": type(error).__name__})  # fmt: skip
            return
        shown = {k: cell(v) for k, v in point.parameters.items()}
        for repetition, run in enumerate(runs):
            extra = self.measure(run) if self.measure else None
            self.rows += [(point.number, row) for row in run_rows(run, shown, repetition, extra)]
        self.machines.setdefault(str(runs[0].on), runs[0].machine)
        for note in runs[0].notes:
            if note not in self.remarks:
                self.remarks.append(note)

    def _runs(self, point: _Point) -> list[Run]:
        how: dict[str, Any] = {"args": self.args, "kwargs": point.parameters, "timeout_s": self.timeout_s}
        how |= self.options | ({"model": point.model} if point.model is not None else {})
        how |= {"on": point.on, "seed": self.seed}
        if _is_real(point.on):
            how = {name: value for name, value in how.items() if name not in ("tolerance", "calibration")}
            run = self.runner(self.program, point.ranks, repeats=self.repeats + self.warmup, **how)
            return (run.repetitions or [run])[self.warmup if run.repetitions else 0 :]
        if self.repeats == 1 or self.is_deterministic:
            return [self.runner(self.program, point.ranks, **how)]
        runs = []
        for k in range(self.repeats):
            runs.append(self.runner(self.program, point.ranks, **(how | {"seed": self.seed + k})))
            # Rare noise may spare the first two runs; it is drawn from the seed all the same.
            is_quiet = "noise" not in runs[0].machine
            is_same = k == 1 and is_quiet and runs[0].makespan_s == runs[1].makespan_s
            if k == 1 and point.ranks > 1:  # one rank alone may well not show what the seed does
                self.is_deterministic = is_same
            if is_same:
                return runs[:1]
        return runs

    def study(self) -> Study:
        """Return what was measured; raise when nothing was."""
        if not self.rows:
            raise self.errors[0]
        ordered = [row for _, row in sorted(self.rows, key=lambda pair: pair[0])]
        for failure in self.failures:
            warnings.warn(f"the point {failure['point']} failed: {failure['error']}", stacklevel=3)
        notes = {"failures": self.failures, "remarks": self.remarks, "machines": self.machines,
                 "seed": self.seed}  # fmt: skip
        return Study(pd.DataFrame(ordered), notes)


def _bar(total: int, progress: bool | None) -> Any:
    """Return a progress bar: in notebooks and terminals by default."""
    from tqdm import tqdm

    if progress is None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        progress = total > 1 and (hasattr(shell, "kernel") or sys.stderr.isatty())
    return tqdm(total=total, disable=not progress, unit="point", leave=False, mininterval=0, file=sys.stderr)
