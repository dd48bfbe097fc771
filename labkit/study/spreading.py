"""A sweep over many workers, with the rows, failures and remarks of a serial one.

Points are run in any order, and kept in the order of the plan. Where seeds may matter, the first point with
more than one rank is waited for: it nearly always shows that one run of each of the others is enough.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable
from typing import Any, Protocol

from labkit.errors import MachineError
from labkit.run.cores import available_cores
from labkit.study.measuring import Found, Harvest, Job
from labkit.study.points import Point, is_real
from labkit.study.progress import Bar
from labkit.study.setting import pack_job, pack_points, setting_of

__all__ = ["Pool", "check_jobs", "pool_of", "spread"]

#: points that an interrupt's remark names
_NAMED = 8


class Pool(Protocol):
    """Workers."""

    @property
    def has_room(self) -> bool:
        """Whether another point can be given out."""

    def submit(self, point: Point, packed: bytes, is_once: bool) -> None:
        """Give a point out, packed by `labkit.study.setting.pack_points`."""

    def next(self) -> tuple[Point, Found]:
        """Wait until a point is done, or lost."""

    def close(self) -> None:
        """End what is still running."""


def check_jobs(jobs: Any, plan: list[Point], options: Any) -> Any:
    """Refuse workers that make no sense, and return their number, or the view of a cluster; 1: no workers.

    Raises
    ------
    MachineError
        In one sentence.
    """
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
    real = next((point for point in plan if is_real(point.on)), None)
    if real is not None:
        raise MachineError(
            "jobs spreads simulations: runs on real machines beside each other would disturb each other's "
            "times; leave out jobs, or the real machine"
        )
    if str(options.get("compute", "charged")) != "charged":
        raise MachineError(
            'jobs and compute="measured" do not go together: workers beside each other would disturb the CPU '
            "times that are measured; leave one of them out"
        )
    return int(jobs) if is_number else jobs


def _is_of_ipyparallel(jobs: Any) -> bool:
    names = {base.__module__.partition(".")[0] for base in type(jobs).__mro__}
    return "ipyparallel" in names or hasattr(type(jobs), "labkit_cluster")


def pool_of(jobs: Any, job: Job, points: int) -> Pool:
    """Return the workers for a number of points."""
    packed, setting = pack_job(job), setting_of()
    if isinstance(jobs, int):
        from labkit.study.pool import LocalPool

        return LocalPool(packed, setting, min(jobs, points), job.timeout_s, job.repeats)
    from labkit.study.engines import EnginePool

    return EnginePool(packed, setting, jobs, job.timeout_s, job.repeats)


def spread(job: Job, plan: list[Point], harvest: Harvest, bar: Bar, pool: Pool) -> None:
    """Run the points on the workers, and keep them in the order of the plan."""
    packed = pack_points(plan)  # what cannot travel is refused before anything runs
    done: dict[int, Found] = {}
    at = {point.number: index for index, point in enumerate(plan)}
    given = kept = 0
    probe: int | None = None  # the point that shall show whether the seeds matter
    try:
        while kept < len(plan):
            while given < len(plan) and pool.has_room and not (probe is not None and kept <= probe):
                point = plan[given]
                if _may_show(job, point, harvest) and probe is None:
                    probe = given
                pool.submit(point, packed[given], bool(harvest.is_deterministic))
                given += 1
            point, found = pool.next()
            done[at[point.number]] = found
            bar.set_postfix_str(point.text, refresh=False)
            bar.update()
            while kept in done:
                _keep(harvest, plan[kept], done.pop(kept))
                kept += 1
    except MachineError as error:  # the workers cannot go on: what is done is not lost
        for index in range(kept, len(plan)):
            _keep(harvest, plan[index], done.get(index) or Found(failure=error))
    except KeyboardInterrupt:
        missing = [point.text for index, point in enumerate(plan) if index >= kept and index not in done]
        for index in sorted(done):
            _keep(harvest, plan[index], done[index])
        shown = "; ".join(missing[:_NAMED]) + ("; …" if len(missing) > _NAMED else "")
        harvest.remarks.append(
            f"interrupted by the user: {len(missing)} of {len(plan)} points are missing ({shown})"
        )
        if not harvest.rows:
            raise
    finally:
        pool.close()


def _may_show(job: Job, point: Point, harvest: Harvest) -> bool:
    return job.repeats > 1 and point.ranks > 1 and harvest.is_deterministic is None


def _keep(harvest: Harvest, point: Point, found: Found) -> None:
    """Keep a point, and say here what was printed there."""
    write: Callable[[str], Any]
    for text, write in zip(found.printed, (sys.stdout.write, sys.stderr.write), strict=True):
        if text:
            write(text)
    harvest.keep(point, found)
