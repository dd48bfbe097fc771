"""The engines of an ipyparallel cluster as workers for the points of a sweep."""

from __future__ import annotations

import contextlib
import pickle
import signal
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED
from concurrent.futures import wait as wait_futures
from dataclasses import dataclass
from typing import Any

from labkit import __version__
from labkit.errors import MachineError, TimeLimitError
from labkit.study.executors import failure_of, run_point
from labkit.study.measure import Found
from labkit.study.points import Point

__all__ = ["EnginePool"]

#: a simulation ends at its limit itself, with a report; an engine that has not is given up
GRACE_S = 10.0
#: how often the clock is looked at
LOOK_S = 0.2
#: how long an engine may take to end a point that is interrupted
STOP_S = 5.0


@dataclass(eq=False)
class _Task:
    point: Point
    reply: Any
    deadline: float | None


class EnginePool:
    """Runs points on the engines of a cluster, whichever is free.

    Parameters
    ----------
    job : bytes
        What all points have in common, packed.
    setting : mapping
        Of this process.
    jobs : LoadBalancedView, Client, Cluster, DirectView or LocalCluster
        The cluster.
    limit_s : float or None
        How long one run may take.
    repeats : int
        Runs of one point at the most.

    Raises
    ------
    MachineError
        It is no cluster that is running, or has no engines.
    """

    def __init__(
        self, job: bytes, setting: Mapping[str, Any], jobs: Any, limit_s: float | None, repeats: int
    ) -> None:
        self._job, self._setting = job, setting
        self._limit_s = None if limit_s is None else limit_s * repeats + GRACE_S
        self._view = _view_of(jobs)
        self._tasks: list[_Task] = []
        self._lost = 0  # engines that do not come back from a point

    def _engines(self) -> list[int]:
        known = list(self._view.client.ids)
        targets = self._view.targets
        return known if targets is None else [engine for engine in known if engine in targets]

    @property
    def has_room(self) -> bool:
        """Whether an engine has nothing to do."""
        return len(self._tasks) < len(self._engines()) - self._lost

    def submit(self, point: Point, packed: bytes) -> None:
        """Give a point to whichever engine is free."""
        what = __version__, self._setting, self._job, packed
        try:
            with self._view.temp_flags(block=False, track=False):
                reply = self._view.apply_async(run_point, *what)
        except Exception as error:  # a client that is closed, a controller that is gone
            raise MachineError(
                f"the cluster takes no work ({type(error).__name__}: {error}); start it anew"
            ) from error
        deadline = None if self._limit_s is None else time.monotonic() + self._limit_s
        self._tasks.append(_Task(point, reply, deadline))

    def next(self) -> tuple[Point, Found]:
        """Wait until a point is done, or lost."""
        while True:
            if not self._tasks:
                raise MachineError("the cluster has no engines left that could go on; start another one")
            wait_futures([task.reply for task in self._tasks], LOOK_S, FIRST_COMPLETED)
            now = time.monotonic()
            for task in self._tasks:
                if task.reply.ready():
                    return self._take(task)
                if task.deadline is not None and now > task.deadline:
                    self._tasks.remove(task)
                    self._lost += 1
                    text = f"its engine had not ended {GRACE_S:g} s after the time limit, and is given up"
                    return task.point, Found(failure=TimeLimitError(text))

    def close(self) -> None:
        """Interrupt what still runs, and wait a little until the engines are free again."""
        left, self._tasks = [task.reply for task in self._tasks if not task.reply.ready()], []
        if not left:
            return
        client = self._view.client
        with contextlib.suppress(Exception):  # the cluster may be gone
            client.abort([one for reply in left for one in reply.msg_ids], block=False)
        until = time.monotonic() + STOP_S
        while any(not reply.ready() for reply in left) and time.monotonic() < until:
            with contextlib.suppress(Exception):  # an engine may vanish at any moment
                client.send_signal(int(signal.SIGINT), targets=_busy(client, left), block=False)
            wait_futures(left, 0.5)

    def _take(self, task: _Task) -> tuple[Point, Found]:
        self._tasks.remove(task)
        try:
            packed = task.reply.get()
        except Exception as error:  # whatever the engine or the way back has raised
            return task.point, Found(failure=failure_of(error, "engine"))
        with contextlib.suppress(Exception):  # the client would keep it as long as it lives
            self._view.client.purge_local_results(task.reply)
        return task.point, pickle.loads(packed)


def _busy(client: Any, replies: list[Any]) -> list[int]:
    """List the engines that run these tasks, and nobody else's."""
    wanted = {one for reply in replies for one in reply.msg_ids}
    status = client.queue_status(verbose=True)
    return [
        engine
        for engine, state in status.items()
        if isinstance(engine, int) and wanted & {*state.get("tasks", ()), *state.get("queue", ())}
    ]


def _view_of(jobs: Any) -> Any:
    import ipyparallel

    from labkit.real.engines.target import find_target

    if isinstance(jobs, ipyparallel.LoadBalancedView):
        if not jobs.client.ids:
            raise MachineError("the cluster behind this view has no engines (any more); start them anew")
        return jobs
    target = find_target(jobs)
    chosen = None if len(target.engines) == len(target.client.ids) else target.engines
    return target.client.load_balanced_view(chosen)
