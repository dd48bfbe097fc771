"""Sweeps on a cluster: all points are submitted before the first one is waited for."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from labkit.real.slurm.batch import Batch, Point
from labkit.real.slurm.machine import make_point
from labkit.real.slurm.options import Slurm, is_slurm, slurm_of
from labkit.real.slurm.watch import Line, WaitError
from labkit.result import Run

__all__ = ["batched"]

#: options of a run that are the launch's own; all others are those of `labkit.slurm`
_LAUNCH = ("args", "kwargs", "trace", "timeout_s", "seed", "repeats", "output_limit_bytes")


@contextlib.contextmanager
def batched(job: Any, plan: Sequence[Any]) -> Iterator[Any]:
    """Submit the points of a sweep that are to run on Slurm.

    Parameters
    ----------
    job : Job
        What the points have in common; see `labkit.study.measure`.
    plan : sequence of Point
        The points, in the order in which they are to be measured.

    Yields
    ------
    Job
        The same, with a runner that waits for what was submitted. When all went well the results count as
        handed out at the end; after an interrupt, or an error, the same sweep finds all of them again.
    """
    if job.runner is not None or not any(is_slurm(point.on) for point in plan):
        yield job
        return
    runs = _SweepRuns(job, plan)
    yield dataclasses.replace(job, runner=runs.run)
    runs.finish()


class _SweepRuns:
    """The batches of one sweep: one for each cluster."""

    def __init__(self, job: Any, plan: Sequence[Any]) -> None:
        self._waiting: dict[str, list[tuple[Batch, Point]]] = {}
        self._batches: list[Batch] = []
        self._is_open = False
        clusters: dict[Slurm, list[Point]] = {}
        for one in plan:
            if is_slurm(one.on):
                how = job.launch(one)
                cluster, how = _split(how)
                clusters.setdefault(cluster, []).append(make_point(job.program, one.ranks, cluster, **how))
        line = Line()
        for cluster, points in clusters.items():
            batch = Batch(cluster, line)
            self._batches.append(batch)
            batch.submit(points)
            for point in points:
                self._waiting.setdefault(point.key, []).append((batch, point))
        self._tell(line)

    def _tell(self, line: Callable[[str], None]) -> None:
        found = sum(batch.found for batch in self._batches)
        total = sum(len(waiting) for waiting in self._waiting.values())
        if found:
            line(f"{found} of {total} points were found in earlier jobs")

    def run(self, program: Any, ranks: int, **how: Any) -> Run:
        """Wait for the point that these arguments name; run at once what is not for Slurm."""
        if not is_slurm(how["on"]):
            from labkit.run import run

            return run(program, ranks, **how)
        cluster, launch = _split(how)
        batch, point = self._waiting[make_point(program, ranks, cluster, **launch).key].pop(0)
        try:
            return batch.result(point)
        except KeyboardInterrupt:
            self._is_open = True
            for one in self._batches:
                print(f"\n{one.farewell()}", file=sys.stderr, flush=True)
            raise
        except WaitError:
            self._is_open = True
            raise

    def finish(self) -> None:
        """Note that all results have been handed out, unless somebody stopped waiting."""
        if not self._is_open:
            for batch in self._batches:
                batch.finish()


def _split(how: dict[str, Any]) -> tuple[Slurm, dict[str, Any]]:
    """Tell the cluster's options from those of the launch."""
    rest = {name: value for name, value in how.items() if name not in _LAUNCH and name != "on"}
    launch = {name: value for name, value in how.items() if name in _LAUNCH}
    return slurm_of(how["on"]).changed(**rest), launch
