"""Sweeps: one program over every combination of ranks, machines and parameters."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import numbers
import platform
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from labkit import __version__
from labkit.checks import (
    check_arguments,
    check_function,
    check_limit,
    check_repeats,
    check_seed,
    check_tolerance,
    program_name,
)
from labkit.errors import DataError, MachineError, ProgramError, nearest
from labkit.launch.run import machine_of, together
from labkit.local.costs import find_calibration
from labkit.machines.noise import noise_of
from labkit.sim.measured import MOST_BYTES, Measured, Records, measured_of
from labkit.study.bundle.recipe_file import recipe_of
from labkit.study.measure import SEEDS, SweepJob
from labkit.study.points import Point, is_real, plan_points
from labkit.study.spread import Harvest, check_workers, one_by_one, pool_of, second_look, spread
from labkit.study.study import Study
from labkit.text.progress import told_to
from labkit.timing import Repeats

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from labkit.result import Run

__all__ = ["Planned", "plan_sweep", "progress_bar", "records_of", "sweep"]


def sweep(
    program: Callable[..., object],
    ranks: int | str | Iterable[int | str],
    on: object = "star",
    *,
    repeats: int | Repeats | None = None,
    warmup: int = 1,
    args: Sequence[object] = (),
    model: str | Sequence[str | None] | None = None,
    seed: int = 0,
    timeout_s: float | None = 60.0,
    progress: bool | None = None,
    tolerance: float = 0.0,
    calibration: object = None,
    compute: object = None,
    measure: Callable[[Run], Mapping[str, float]] | None = None,
    coll: object = None,
    noise: object = None,
    options: Mapping[str, object] | None = None,
    runner: Callable[..., Run] | None = None,
    jobs: object = None,
    executor: Executor | None = None,
    **parameters: object,
) -> Study:
    """Run a program at every combination of ranks, machines and parameters.

    Parameters
    ----------
    program : callable
        ``program(comm, *args, **parameters)``.
    ranks : int, str, or iterable of them
        The numbers of ranks; ``"16..256"`` stands for 16, 24, 32, 48, 64, 96, 128, 192, 256 (the powers of
        two and the numbers halfway between them). Where algorithms or times change with the form of p, powers
        of two or not, the study has a remark.
    on : str, Platform, callable, or list of them
        The machine: ``"mpi"``, a running cluster of MPI engines, ``"slurm"`` or a `labkit.slurm` (all its
        points are submitted before the first is waited for), or a platform; an unsized ``"star"`` grows
        with the ranks. A callable gets the number of ranks and returns the machine. A list is one more
        dimension of the sweep.
    repeats : int or Repeats, optional
        Repetitions of a point: a number, or when to stop. Default on real machines: `labkit.Repeats()`, until
        the 95 % interval of the median is within 5 %, 6 to 50 times. Default in simulation: 5 seeds, or
        fewer where those of a point would take this host more than about 1 s (estimated from messages and
        events, so that the number is always the same; a remark names these points). Whatever the number, a
        simulated point runs once if nothing is drawn from the seed (which is tried at one point), or if two
        seeds give the same times and counts at every point. On real machines all ranks start in a window of
        rank 0's clock, and starts that are late on some rank are thrown away and counted;
        ``study.methods()`` describes how it went.
    warmup : int
        Runs on real MPI before the repetitions, in the same launch; they are thrown away.
    args : sequence
        Arguments of every run, kept out of the table.
    model : str or list, optional
        The network model of simulated runs.
    seed : int
        The first repetition's seed; repetition k has ``seed + k``, in the column ``seed`` of the study. It
        seeds `random`, `numpy.random`, `labkit.datasets.inputs` and noise, and is the program's parameter
        `seed` (added to its default), if it has one; on real machines, all repetitions of a point get the
        same `seed` as a parameter. Real measurements are also taken in an order shuffled by it.
    timeout_s : float
        Limit of host time for each point.
    progress : bool, optional
        Whether to show a progress bar; by default when somebody watches.
    tolerance : float
        Of the simulated runs, see `labkit.run`; 0: exact. Real machines have none.
    calibration : str, path or KernelCosts, optional
        What node-local work costs in the simulated runs, see `labkit.run`.
    compute : str, Study or Measured, optional
        ``"measured"`` charges simulated ranks what their code takes of this host's CPU, see `labkit.run`. It
        is kept with the study: ``compute=study`` (one loaded from a file, too) repeats it to the bit.
    measure : callable, optional
        Gets each Run and returns further metrics by name, with the unit as ending: ``{"sent_bytes": ...}``.
        Messages, bytes, rounds, comparisons and memory are counted without it, see `labkit.Run.counts`.
    coll : str, mapping, path, Selector, or list of them, optional
        Algorithms of the collectives of simulated runs, as in `labkit.run`, or as on the command line:
        ``"allreduce=ring"``. A list is one more dimension, the column ``coll`` of the study:
        ``["allreduce=ring", "allreduce=rabenseifner"]`` or ``{"allreduce": ["ring", "rabenseifner"]}``.
    noise : Noise, str, or list of them, optional
        What disturbs the simulated runs, as in `labkit.run`; ``"none"``: nothing. Noise without a seed of its
        own differs between repetitions. A list is one more dimension, the column ``noise`` of the study:
        ``["none", "jitter=50us"]``.
    options : mapping, optional
        Further options of `labkit.run`, such as ``{"mapping": "cyclic"}``.
    runner : callable, optional
        What runs a point instead of `labkit.run`.
    jobs : int or cluster, optional
        Spreads simulations over processes of this host, which stay for the next sweep for 20 s, or over the
        engines of an ipyparallel cluster (its load-balanced view, the cluster itself, or a
        `labkit.cluster`). The study is the one of a serial sweep: the same rows in the same order, to the
        last bit; a program that depends on Python's hash seed (the order of a set of texts) is noticed at
        one point, and run here instead, with a remark, unless PYTHONHASHSEED sets the seed.
        Program, `measure` and `runner` travel by value: what they change outside themselves stays in the
        worker. Not for real machines, whose times would disturb each other.
    executor : concurrent.futures.Executor, optional
        Spreads simulations over the workers of an executor, in place of `jobs`: ``ProcessPoolExecutor(4)``,
        loky's, ``client.get_executor()`` of dask, those of mpi4py.futures and submitit. The study is the one
        of a serial sweep, as with `jobs`. A point whose worker dies is run again by the executor (dask does)
        or fails alone; if the executor itself breaks, what it has not finished runs in worker processes of
        this host. The caller shuts it down.
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
        When the tolerance is none; when an option of simulated runs is given and none is simulated; when
        jobs or executor make no sense, or the workers cannot work.
    LabkitError
        When every point failed: the first point's error.
    """
    planned = plan_sweep(
        program, ranks, on, repeats=repeats, warmup=warmup, args=args, model=model, seed=seed,
        timeout_s=timeout_s, tolerance=tolerance, calibration=calibration, compute=compute, measure=measure,
        coll=coll, noise=noise, options=options, runner=runner, jobs=jobs, executor=executor,
        **parameters,
    )  # fmt: skip
    planned.carry_out(progress)
    study = planned.harvest.study()
    keep_computation(study, planned.job)
    study.recipe = recipe_of(planned.job, planned.plan, (number for number, _ in planned.harvest.rows))
    return study


# Progress of a sweep: tqdm's bar, in a terminal or in a notebook's cell.


class _CellBar(tqdm):  # type: ignore[misc]  # it is untyped
    """The bar as a text in a cell's output: tqdm's own widget would stay in a saved notebook, dead."""

    handle: Any = None

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write the bar again; tqdm calls this, at last with nothing to show."""
        from IPython.display import display

        shown = {"text/plain": str(self) if msg is None else msg}
        if self.handle is None:
            self.handle = display(shown, raw=True, display_id=True)
        else:
            self.handle.update(shown, raw=True)


def progress_bar(total: int, progress: bool | None) -> Any:
    """Return a bar of tqdm's for this many points; by default it is seen in notebooks and terminals only."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    is_notebook = hasattr(shell, "kernel")
    if progress is None:
        progress = total > 1 and (is_notebook or sys.stderr.isatty())
    kind, every_s = (_CellBar, 0.1) if is_notebook else (tqdm, 0)
    return kind(
        total=total, disable=not progress, unit="point", leave=False, mininterval=every_s, file=sys.stderr
    )


class BarView:
    """Shows the point that runs in a sweep's bar: a view of `labkit.text.progress`."""

    def __init__(self, bar: Any) -> None:
        self._bar, self._point = bar, ""

    def show(self, status: str, lines: list[str]) -> None:
        """Write how far the point is, and what it has printed last."""
        said = status.partition("; ")[2]
        self._bar.set_postfix_str(" | ".join([said, *lines[-1:]])[:160], refresh=True)

    def end(self, status: str) -> None:
        """Leave the bar to the next point."""


@dataclasses.dataclass
class Planned:
    """A sweep before it runs.

    `job`: What all points have in common.
    `plan`: In the order in which they run.
    `workers`: 1: this process.
    `harvest`: Takes in what is found.
    """

    job: SweepJob
    plan: list[Point]
    workers: object
    harvest: Harvest

    def carry_out(self, progress: bool | None) -> bool:
        """Run the points; return whether all were run."""
        job, plan, harvest = self.job, self.plan, self.harvest
        with _handed_in(job, plan) as ready, progress_bar(len(plan), progress) as bar, told_to(BarView(bar)):
            return run_points(ready, plan, harvest, bar, self.workers)


def run_points(job: SweepJob, plan: list[Point], harvest: Harvest, bar: Any, workers: object = 1) -> bool:
    """Run the points, and again those where two seeds agreed, with all seeds, if they differ elsewhere."""

    def run(job: SweepJob, plan: list[Point], has_second_look: bool = False) -> bool:
        if workers == 1:
            return one_by_one(job, plan, harvest, bar)
        second = second_look(workers, job) if has_second_look else None
        return spread(job, plan, harvest, bar, pool_of(workers, job, len(plan)), second)

    if not run(job, plan, True):
        return False
    rest = harvest.cut_short(plan)
    if not rest:
        return True
    bar.total = (bar.total or 0) + len(rest)
    return run(dataclasses.replace(job, is_every=True), rest)


def _check(seed: object, timeout_s: object, warmup: object, measure: object, runner: object) -> None:
    check_seed(seed)
    check_limit(timeout_s)
    check_repeats(warmup, "warmup", 0)
    check_function("measure", measure, "measure(run)")
    check_function("runner", runner, "runner(program, ranks, **options)")


def plan_sweep(
    program: Callable[..., object],
    ranks: object,
    on: object = "star",
    *,
    repeats: int | Repeats | None = None,
    warmup: int = 1,
    args: Sequence[object] = (),
    model: object = None,
    seed: int = 0,
    timeout_s: float | None = 60.0,
    tolerance: float = 0.0,
    calibration: object = None,
    compute: object = None,
    measure: Callable[[Run], Mapping[str, float]] | None = None,
    coll: object = None,
    noise: object = None,
    options: Mapping[str, Any] | None = None,
    runner: Callable[..., Run] | None = None,
    jobs: object = None,
    executor: Executor | None = None,
    **parameters: object,
) -> Planned:
    """Return what `sweep` would run; it raises as that does."""
    _check(seed, timeout_s, warmup, measure, runner)
    check_arguments(args, options)
    _refuse_unknown(parameters, program)
    options = dict(options or {})
    compute = options.pop("compute", None) if compute is None else compute
    for name, value in (("coll", coll), ("noise", noise)):
        _refuse_twice(name, value, options, program)
    noises = list(noise) if isinstance(noise, list | tuple) else None
    noise = options.pop("noise", None) if noise is None else noise
    plan = plan_points(ranks, on, model, parameters, coll, noises)
    how = {
        **options,
        **_tolerance(tolerance, program, plan),
        **_simulated("calibration", calibration, find_calibration, program, plan),
        **_simulated("compute", compute, _recorded, program, plan),
        **_simulated("noise", None if noises else noise, _checked_noise, program, plan),
    }
    is_shuffled = any(is_real(point.on) for point in plan)
    asked, simulated, most = _repeats(repeats, is_shuffled)
    probe = min((p for p in plan if p.ranks > 1 and not is_real(p.on)), key=lambda p: p.ranks, default=None)
    job = SweepJob(
        program,
        tuple(args),
        most,
        warmup,
        seed,
        timeout_s,
        how,
        measure,
        runner,
        asked,
        simulated,
        None if probe is None else probe.number,
    )
    if is_shuffled:
        random.Random(seed).shuffle(plan)
    workers = check_workers(jobs, executor, plan, how)
    harvest = Harvest(seed)
    harvest.about = {
        "repeats": most if asked is None else asked.to_dict(),
        "warmup": warmup,
        "points": len(plan),
        "order": "shuffled" if is_shuffled else "planned",
        "labkit": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    return Planned(job, plan, workers, harvest)


@contextlib.contextmanager
def _handed_in(job: SweepJob, plan: list[Point]) -> Iterator[SweepJob]:
    """Hand in what waits in a queue, all together; yield the job that waits for it."""
    if job.runner is not None or not any(machine_of(point.on).is_queued for point in plan):
        yield job
        return
    with together([(job.program, point.ranks, job.launch(point)) for point in plan]) as waiting:
        yield dataclasses.replace(job, waiting=waiting)


def _repeats(repeats: object, has_real: bool) -> tuple[Repeats | None, Repeats | None, int]:
    """Return when to stop on real machines and in simulation (None: the number decides), and that number."""
    if isinstance(repeats, Repeats):
        return repeats, repeats, repeats.most
    if repeats is None:
        asked = Repeats() if has_real else SEEDS
        return asked, SEEDS, asked.most
    if isinstance(repeats, bool) or not isinstance(repeats, numbers.Integral) or repeats < 1:
        raise DataError(
            f"repeats is a whole number of at least 1, or labkit.Repeats(...); got {repeats!r}",
            code="out-of-range",
        )
    return None, None, int(repeats)


def _tolerance(tolerance: object, program: object, plan: list[Point]) -> dict[str, float]:
    """Return the option of the simulated runs, unless it is 0."""
    is_real_only = all(is_real(point.on) for point in plan)
    if isinstance(tolerance, int | float) and tolerance == 0:
        return {}
    _require_own("tolerance", program)
    return {"tolerance": check_tolerance(tolerance, "real machines" if is_real_only else None)}


def _simulated(
    option: str, value: object, read: Callable[[object], object], program: object, plan: list[Point]
) -> dict[str, object]:
    """Return an option of the simulated runs, unless none was chosen."""
    if value is None:
        return {}
    _require_own(option, program)
    if all(is_real(point.on) for point in plan):
        raise MachineError(
            f"{option} belongs to simulated runs, not to real machines; leave it out",
            code="conflicting-options",
        )
    return {option: read(value)}


def _recorded(compute: object) -> Measured:
    """Read the option; what is measured is kept, and what a study has is all that there is."""
    measured = measured_of(compute)
    if measured.replay is not None:
        raise MachineError(
            "compute=run repeats one run; for a sweep give it a study, or a file of records",
            code="conflicting-options",
        )
    if measured.is_everything and measured.records is None:
        return dataclasses.replace(measured, records=Records())
    return measured


def records_of(job: SweepJob) -> Records | None:
    """Return where a sweep keeps what it measures."""
    measured = job.options.get("compute")
    return None if measured is None else measured.records


def keep_computation(study: Study, job: SweepJob) -> None:
    """Keep what was measured of all points with the study, unless it is too much."""
    records = records_of(job)
    if not records:
        return
    if records.packed_bytes > MOST_BYTES:
        study.notes["remarks"].append(
            f"the measured computation of this sweep is too large to be kept "
            f"({records.packed_bytes >> 20} MiB packed, at most {MOST_BYTES >> 20}): "
            'compute="recorded:FILE" keeps it in a file'
        )
        return
    study.notes["computation"] = records.kept


def _refuse_twice(name: str, value: object, options: Mapping[str, object], program: object) -> None:
    """Refuse a choice that is made twice, or that the program has a parameter for."""
    if value is not None:
        _require_own(name, program)
        if name in options:
            raise DataError(
                f"{name} is given twice: {name}=... and options={{{name!r}: ...}}; leave one out",
                code="duplicate-name",
            )


def _checked_noise(noise: Any) -> object:
    noise_of(noise)
    return noise


def _refuse_unknown(parameters: Iterable[str], program: object) -> None:
    """Refuse a name that is neither the program's nor the sweep's, but near to one of the sweep's."""
    if not callable(program):
        return
    try:
        own = inspect.signature(program).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return
    if any(one.kind is one.VAR_KEYWORD for one in own.values()):
        return
    options = [name for name in inspect.signature(sweep).parameters if name not in ("program", "parameters")]
    for name in parameters:
        if name not in own and (hint := nearest(name, [*options, *[*own][1:]], 1)):
            raise ProgramError(
                f"neither {program_name(program)} nor labkit.sweep has a parameter {name!r}{hint}",
                code="unknown-name",
            )


def _require_own(option: str, program: object) -> None:
    if callable(program) and option in inspect.signature(program).parameters:
        raise DataError(
            f"{option} is the simulation's own (see labkit.run), and the program has a parameter of that "
            "name, too; give the program's another name",
            code="name-taken",
        )
