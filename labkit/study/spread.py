"""A sweep over many workers, with the rows, failures and remarks of a serial one.

Points are run in any order, and kept in the order of the plan. Where the workers' hash seed may be another
than here, the first point with more than one rank is also run under a second one.
"""

from __future__ import annotations

import numbers
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass, field
from typing import Any, Protocol

import pandas as pd

from labkit.checks import REMARK, Uncharged
from labkit.errors import LabkitError, MachineError, StudyWarning, TimeLimitError
from labkit.real.context import available_cores
from labkit.study.measure import Found, SweepJob
from labkit.study.points import Point, form_remarks, is_real
from labkit.study.pool import ExecutorPool, LocalPool, check_executor, is_this_process
from labkit.study.rows import how_counted
from labkit.study.study import Study
from labkit.study.worker_setup import fingerprint, known_seed, pack_job, pack_points, setting_of, workers_seed
from labkit.timing.repeats import Conduct

__all__ = [
    "Harvest",
    "Pool",
    "check_workers",
    "cut_short",
    "one_by_one",
    "pool_of",
    "second_look",
    "seeds_change_nothing",
    "spread",
]


#: points that an interrupt's remark names
_NAMED = 8


class Pool(Protocol):
    """Workers."""

    @property
    def has_room(self) -> bool:
        """Whether another point can be given out."""

    def submit(self, point: Point, packed: bytes) -> None:
        """Give a point out, packed by `labkit.study.worker_setup.pack_points`."""

    def next(self) -> tuple[Point, Found]:
        """Wait until a point is done, or lost."""

    def close(self) -> None:
        """End what is still running."""


def check_workers(jobs: Any, executor: object, plan: list[Point], options: object) -> Any:
    """Return the workers of a sweep: their number (1: none), a cluster or an executor."""
    if executor is not None:
        if jobs is not None:
            raise MachineError(
                "jobs and executor both choose the workers of a sweep; leave one of them out",
                code="conflicting-options",
            )
        check_executor(executor)
        _require_undisturbed("executor", plan, options)
        return executor
    if jobs is None:
        return 1
    is_number = isinstance(jobs, numbers.Integral) and not isinstance(jobs, bool)
    most = max(32, 4 * available_cores())
    if is_number and not 1 <= jobs <= most:
        raise MachineError(
            f"jobs is a number of processes from 1 to {most} here, got {jobs}", code="out-of-range"
        )
    if not is_number and not _is_of_ipyparallel(jobs):
        raise MachineError(
            "jobs is a number of processes, or a cluster of ipyparallel or its load-balanced view; got "
            f"{jobs!r}",
            code="wrong-type",
        )
    if is_number and jobs == 1:
        return 1
    _require_undisturbed("jobs", plan, options)
    return int(jobs) if is_number else jobs


def _require_undisturbed(name: str, plan: list[Point], options: Any) -> None:
    """Refuse workers where they would change what is measured."""
    if any(is_real(point.on) for point in plan):
        raise MachineError(
            f"{name} spreads simulations: concurrent runs on real machines would disturb each other's "
            f"times; leave out {name}, or the real machine",
            code="conflicting-options",
        )
    if str(options.get("compute") or "charged") != "charged":
        raise MachineError(
            f'{name} and compute="measured" do not go together: concurrent workers would disturb the '
            "CPU times that are measured; leave one of them out",
            code="conflicting-options",
        )


def _is_of_ipyparallel(jobs: object) -> bool:
    names = {base.__module__.partition(".")[0] for base in type(jobs).__mro__}
    return "ipyparallel" in names or hasattr(type(jobs), "labkit_cluster")


def pool_of(workers: object, job: SweepJob, points: int) -> Pool:
    """Return the workers for a number of points."""
    packed, setting = pack_job(job), setting_of()
    if isinstance(workers, int):
        return LocalPool(packed, setting, min(workers, points), job.timeout_s, job.repeats)
    if not _is_of_ipyparallel(workers) or isinstance(workers, Executor):
        return ExecutorPool(packed, setting, workers)
    from labkit.study.pool import EnginePool

    return EnginePool(packed, setting, workers, job.timeout_s, job.repeats)


def second_look(workers: object, job: SweepJob) -> SecondLook | None:
    """Return what runs a point under another hash seed; None where the workers have that of this process."""
    if is_this_process(workers) or (isinstance(workers, int) and known_seed() is not None):
        return None
    return SecondLook(job, pack_job(job), setting_of())


def one_by_one(job: SweepJob, plan: list[Point], harvest: Harvest, bar: Any) -> bool:
    """Run the points in this process; return whether all of them were."""
    for point in plan:
        bar.set_postfix_str(point.text, refresh=False)
        try:
            harvest.keep(point, job.find(point))
        except KeyboardInterrupt:
            left = "have one seed only" if job.is_every else "are missing"
            harvest.remarks.append(f"interrupted by the user at {point.text}; the later points {left}")
            if not harvest.rows:
                raise
            return False
        bar.update()
    return True


def spread(
    job: SweepJob,
    plan: list[Point],
    harvest: Harvest,
    bar: Any,
    pool: Pool,
    second: SecondLook | None = None,
) -> bool:
    """Run the points on the workers, and keep them in the order of the plan; return whether all were run."""
    packed = pack_points(plan)  # what cannot travel is refused before anything runs
    work = _Spread(job, plan, harvest, pool, packed, second)
    try:
        while work.kept < len(plan):
            try:
                point, found = work.next()
            except MachineError as error:  # the workers cannot go on: what is done is not lost
                work.give_up(error)
                return False
            bar.set_postfix_str(point.text, refresh=False)
            bar.update()
            work.take(point, found)
    except _Depends:
        work.pool.close()
        harvest.remarks.append(ENGINES_REMARK)
        bar.update(-len(work.done))  # nothing has been kept
        return one_by_one(job, plan, harvest, bar)
    except KeyboardInterrupt:
        work.interrupted()
        if not harvest.rows:
            raise
        return False
    finally:
        work.pool.close()
        if second is not None:
            second.close()
    return True


class _Depends(Exception):
    """What the program does depends on the hash seed."""


class _Spread:
    """Where a sweep stands: what has been given out, what is done, what is kept."""

    def __init__(
        self,
        job: SweepJob,
        plan: list[Point],
        harvest: Harvest,
        pool: Pool,
        packed: list[bytes],
        second: SecondLook | None,
    ) -> None:
        self.job, self.plan, self.harvest, self.pool, self.packed = job, plan, harvest, pool, packed
        self.second = second  # until it has been asked: nothing is kept before
        self.shown = next((index for index, point in enumerate(plan) if point.ranks > 1), 0)
        self.at = {point.number: index for index, point in enumerate(plan)}
        self.done: dict[int, Found] = {}
        self.kept = 0
        # to be given out: the largest points, which take longest, would be waited for at the end
        later = sorted(range(len(plan)), key=lambda index: -plan[index].ranks)
        self.left = deque(dict.fromkeys([self.shown, *later]))

    def next(self) -> tuple[Point, Found]:
        """Give out what can be given out, and wait for a point."""
        try:
            return self._next()
        except BrokenExecutor as error:
            self._go_on_here(error)
            return self._next()

    def _next(self) -> tuple[Point, Found]:
        while self.left and self.pool.has_room:
            what = self.plan[self.left[0]], self.packed[self.left[0]]
            self.pool.submit(*what)
            if self.second is not None and self.left[0] == self.shown and not self.second.has_begun:
                self.second.begin(*what)
            self.left.popleft()
        return self.pool.next()

    def _go_on_here(self, error: BrokenExecutor) -> None:
        """Run in processes of this host what a broken executor has not finished, which can die one by one."""
        self.pool.close()
        self.left = deque(i for i in range(self.kept, len(self.plan)) if i not in self.done)
        points = f"{len(self.left)} of {len(self.plan)} points"
        self.harvest.remarks.append(
            f"the executor broke ({type(error).__name__}: {' '.join(str(error).split())[:200]}); the "
            f"{points} that it had not finished ran in worker processes of this host"
        )
        self.pool = pool_of(available_cores(), self.job, len(self.left))

    def take(self, point: Point, found: Found) -> None:
        """Take in a point, and keep all whose turn has come."""
        self.done[self.at[point.number]] = found
        if self.second is not None:
            if not self.second.is_of(point):
                return
            if self.second.contradicts(found):
                raise _Depends
            self.second = None
        while self.kept in self.done:
            found = self.done.pop(self.kept)
            self.kept += 1
            _keep(self.harvest, self.plan[self.kept - 1], found)

    def give_up(self, error: MachineError) -> None:
        """Note for every point that is not done that the workers could not go on."""
        for index in range(self.kept, len(self.plan)):
            _keep(self.harvest, self.plan[index], self.done.get(index) or Found(failure=error))

    def interrupted(self) -> None:
        """Keep what is done, and say what is missing."""
        missing = [
            point.text
            for index, point in enumerate(self.plan)
            if index >= self.kept and index not in self.done
        ]
        for index in sorted(self.done):
            _keep(self.harvest, self.plan[index], self.done[index])
        shown = "; ".join(missing[:_NAMED]) + ("; …" if len(missing) > _NAMED else "")
        left = "have one seed only" if self.job.is_every else "are missing"
        self.harvest.remarks.append(
            f"interrupted by the user: {len(missing)} of {len(self.plan)} points {left} ({shown})"
        )


def _keep(harvest: Harvest, point: Point, found: Found) -> None:
    """Keep a point, and say here what was printed there."""
    write: Callable[[str], object]
    for text, write in zip(found.printed, (sys.stdout.write, sys.stderr.write), strict=True):
        if text:
            write(text)
    harvest.keep(point, found)


# The second look at one point of a sweep, under another hash seed than the workers have.


#: of a sweep that was to be spread
ENGINES_REMARK = (
    "not spread over processes: what the program does depends on the order of a set (or on hash()), "
    "which differs from process to process; all points were run here, one after another. Start Python with "
    "PYTHONHASHSEED=0, or sort what you go through"
)


class SecondLook:
    """Runs one point in a process with another hash seed than the workers have.

    `packed`, `setting`: As for `labkit.study.pool.LocalPool`.
    """

    def __init__(self, job: SweepJob, packed: bytes, setting: Any) -> None:
        seed = "1" if workers_seed() == "0" else "0"
        self._pool = LocalPool(packed, setting, 1, job.timeout_s, job.repeats, hash_seed=seed)
        self._asked: tuple[Point, bytes] | None = None

    def begin(self, point: Point, packed: bytes) -> None:
        """Begin to run the point."""
        self._asked = point, packed
        self._pool.submit(*self._asked)

    @property
    def has_begun(self) -> bool:
        """Whether the point has been given to its process."""
        return self._asked is not None

    def is_of(self, point: Point) -> bool:
        """Whether this is the point that is looked at."""
        return self._asked is not None and self._asked[0].number == point.number

    def contradicts(self, found: Found) -> bool:
        """Whether what a worker has found at the point is due to its hash seed.

        A difference that comes back under the same seed, such as a measured time, is not.
        """
        if found.order == fingerprint() or self._asked is None:  # the worker's seed is that of this process
            return False
        try:
            _, here = self._pool.next()
            if not (_is_telling(found) and _is_telling(here)) or _said(here) == _said(found):
                return False
            self._pool.submit(*self._asked)
            _, again = self._pool.next()
        except MachineError:  # no process to compare with
            return False
        return _said(again) == _said(here)

    def close(self) -> None:
        """End its process."""
        self._pool.close()


def _is_telling(found: Found) -> bool:
    """Whether a point came to an end by itself: a limit, or the end of a process, is the host's."""
    return not isinstance(found.failure, TimeLimitError | MachineError)


def _said(found: Found) -> str:
    """Return all that a study gets of a point, to the last bit."""
    return repr((found.rows, type(found.failure), str(found.failure), found.seeds, found.notes))


# The harvest of a sweep: what its points gave, put together as a study.
#
# What comes of a point depends on the point alone, and points are kept in the order of the plan: that is how
# a sweep over many workers gives the rows of a serial one.


def seeds_change_nothing(seeds: Iterable[str]) -> bool | None:
    """Return whether the seed is known to matter nowhere, from `Found.seeds` of points; None: not known."""
    tried = {one for one in seeds if one}
    return not tried & {"differ", "chance"} if tried else None


def cut_short(seeds: Mapping[int, str]) -> set[int]:
    """Return the points that ran with too few seeds: two agreed there, and elsewhere they do not.

    Where runs differ that draw nothing from the seed, no other point can be known to be always the same.
    """
    if seeds_change_nothing(seeds.values()) is not False:
        return set()
    doubtful = {"same", "unused"} if "chance" in seeds.values() else {"same"}
    return {number for number, one in seeds.items() if one in doubtful}


@dataclass
class Harvest:
    """Takes in what was found, point by point in the order of the plan, and makes a study of it.

    `conduct`: How each point on a real machine was measured.
    `about`: How the sweep was called.
    `seeds`: By the points' numbers whether the seed matters there (`Found.seeds`), where that was tried.
    """

    seed: int
    rows: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    errors: list[LabkitError] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    machines: dict[str, Any] = field(default_factory=dict)
    conduct: list[dict[str, Any]] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, str] = field(default_factory=dict)
    seeds: dict[int, str] = field(default_factory=dict)
    fewer: dict[str, int] = field(default_factory=dict)
    collectives: list[dict[str, dict[int, list[str]]]] = field(default_factory=list)
    uncharged: Uncharged = field(default_factory=Uncharged)

    @property
    def is_deterministic(self) -> bool | None:
        """Whether the seeds are known to change nothing; None as long as no point has shown it."""
        return seeds_change_nothing(self.seeds.values())

    def cut_short(self, plan: Iterable[Point]) -> list[Point]:
        """Return the points of a plan that ran with too few seeds."""
        few = cut_short(self.seeds)
        return [point for point in plan if point.number in few]

    def keep(self, point: Point, found: Found) -> None:
        """Keep a point's rows, or its error; those of an earlier run of the point go.

        Raises Exception: What the caller's `measure` raised.
        """
        if self.seeds.pop(point.number, ""):
            self.rows = [pair for pair in self.rows if pair[0] != point.number]
        if found.failure is not None:
            self.fail(point, found.failure)
            return
        rows = found.rows
        if found.seeds:
            self.seeds[point.number] = found.seeds
        self.collectives.append(found.collectives)
        if found.fewer:
            self.fewer[point.text] = found.fewer
        for one in rows:
            if isinstance(one, Exception):
                raise one
            self.rows += [(point.number, row) for row in one]
        self.machines.setdefault(found.on, found.machine)
        self.uncharged.add(found.uncharged)
        first = next((one for one in rows if not isinstance(one, Exception)), [])
        if (said := how_counted(first, is_real(point.on))) is not None:
            self.counts.setdefault(found.on, said)
        notes = found.notes
        if found.conduct is not None:
            own = Conduct(**found.conduct).notes()
            notes = [*(one for one in notes if one not in own), *(f"{point.text}: {one}" for one in own)]
            where = {"on": found.on, "ranks": point.ranks, **point.cells}
            self.conduct.append({"point": point.number, **where, **found.conduct})
        for note in notes:
            if note not in self.remarks:
                self.remarks.append(note)

    def fail(self, point: Point, error: LabkitError) -> None:
        """Note that a point failed."""
        self.errors.append(error)
        said = str(error).strip().splitlines()[0]
        if said.endswith(":"):  # of what follows in further lines
            said = said.rpartition(". ")[0] or said
        self.failures.append({"point": point.text, "error": said, "kind": type(error).__name__})

    def study(self) -> Study:
        """Return what was measured; raise when nothing was."""
        if not self.rows:
            raise self.errors[0]
        ordered = [row for _, row in sorted(self.rows, key=lambda pair: pair[0])]
        points: dict[str, list[str]] = {}
        for failure in self.failures:
            points.setdefault(failure["error"], []).append(failure["point"])
        for error, (point, *more) in points.items():
            others = f" and {len(more)} more" if more else ""
            warnings.warn(f"the point {point}{others} failed: {error}", StudyWarning, stacklevel=3)
        if self.uncharged.is_notable and REMARK not in self.remarks:  # none of the runs alone took long
            self.remarks.append(REMARK)
        if self.fewer:
            shown = "; ".join(f"{text}: {number}" for text, number in self.fewer.items())
            self.remarks.append(f"expensive points ran with fewer seeds ({shown}); repeats=N runs N of them")
        data = pd.DataFrame(ordered)
        self.remarks += form_remarks(data, self.collectives)
        notes: dict[str, object] = {
            "failures": self.failures,
            "remarks": self.remarks,
            "machines": self.machines,
            "seed": self.seed,
            "counts": self.counts,
            "sweep": self.about | {"is_deterministic": self.is_deterministic},
        }
        if self.conduct:
            notes["conduct"] = sorted(self.conduct, key=lambda one: int(one["point"]))
        return Study(data, notes)
