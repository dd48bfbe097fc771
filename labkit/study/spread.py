"""A sweep over many workers, with the rows, failures and remarks of a serial one.

Points are run in any order, and kept in the order of the plan. Where the workers' hash seed may be another
than here, the first point with more than one rank is also run under a second one.
"""

from __future__ import annotations

import numbers
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor
from typing import Any, Protocol

from labkit.errors import MachineError
from labkit.real.cores import available_cores
from labkit.study.executors import ExecutorPool, check_executor, is_this_process
from labkit.study.harvest import Harvest
from labkit.study.measure import Found, Job
from labkit.study.points import Point, is_real
from labkit.study.pool import LocalPool
from labkit.study.second_look import REMARK, SecondLook
from labkit.study.worker_setup import known_seed, pack_job, pack_points, setting_of

__all__ = ["Pool", "check_workers", "one_by_one", "pool_of", "second_look", "spread"]

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


def check_workers(jobs: Any, executor: Any, plan: list[Point], options: Any) -> Any:
    """Return the workers of a sweep: their number (1: none), a cluster or an executor."""
    if executor is not None:
        if jobs is not None:
            raise MachineError("jobs and executor both choose the workers of a sweep; leave one of them out")
        check_executor(executor)
        _require_undisturbed("executor", plan, options)
        return executor
    if jobs is None:
        return 1
    is_number = isinstance(jobs, numbers.Integral) and not isinstance(jobs, bool)
    most = max(32, 4 * available_cores())
    if is_number and not 1 <= jobs <= most:
        raise MachineError(f"jobs is a number of processes from 1 to {most} here, got {jobs}")
    if not is_number and not _is_of_ipyparallel(jobs):
        raise MachineError(
            "jobs is a number of processes, or a cluster of ipyparallel or its load-balanced view; got "
            f"{jobs!r}"
        )
    if is_number and jobs == 1:
        return 1
    _require_undisturbed("jobs", plan, options)
    return int(jobs) if is_number else jobs


def _require_undisturbed(name: str, plan: list[Point], options: Any) -> None:
    """Refuse workers where they would change what is measured."""
    if any(is_real(point.on) for point in plan):
        raise MachineError(
            f"{name} spreads simulations: runs on real machines beside each other would disturb each other's "
            f"times; leave out {name}, or the real machine"
        )
    if str(options.get("compute") or "charged") != "charged":
        raise MachineError(
            f'{name} and compute="measured" do not go together: workers beside each other would disturb the '
            "CPU times that are measured; leave one of them out"
        )


def _is_of_ipyparallel(jobs: Any) -> bool:
    names = {base.__module__.partition(".")[0] for base in type(jobs).__mro__}
    return "ipyparallel" in names or hasattr(type(jobs), "labkit_cluster")


def pool_of(workers: Any, job: Job, points: int) -> Pool:
    """Return the workers for a number of points."""
    packed, setting = pack_job(job), setting_of()
    if isinstance(workers, int):
        return LocalPool(packed, setting, min(workers, points), job.timeout_s, job.repeats)
    if not _is_of_ipyparallel(workers) or isinstance(workers, Executor):
        return ExecutorPool(packed, setting, workers)
    from labkit.study.engines import EnginePool

    return EnginePool(packed, setting, workers, job.timeout_s, job.repeats)


def second_look(workers: Any, job: Job) -> SecondLook | None:
    """Return what runs a point under another hash seed; None where the workers have that of this process."""
    if is_this_process(workers) or (isinstance(workers, int) and known_seed() is not None):
        return None
    return SecondLook(job, pack_job(job), setting_of())


def one_by_one(job: Job, plan: list[Point], harvest: Harvest, bar: Any) -> bool:
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
    job: Job,
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
        harvest.remarks.append(REMARK)
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
        job: Job,
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
        self.left = deque(range(len(plan)))  # to be given out

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
    write: Callable[[str], Any]
    for text, write in zip(found.printed, (sys.stdout.write, sys.stderr.write), strict=True):
        if text:
            write(text)
    harvest.keep(point, found)
