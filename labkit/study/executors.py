"""An executor of `concurrent.futures` as the workers for the points of a sweep."""

from __future__ import annotations

import contextlib
import pickle
import queue
import threading
import time
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from typing import Any

from labkit import __version__
from labkit.errors import LabkitError, MachineError
from labkit.study.measure import Found
from labkit.study.points import Point
from labkit.study.worker_setup import settle

__all__ = ["ExecutorPool", "check_executor", "failure_of", "is_this_process", "run_point"]

#: points that are submitted ahead; an executor queues them, and each carries the program
MOST_AHEAD = 1024
#: the interval at which futures without callbacks, such as submitit's jobs, are asked whether they are done
LOOK_S = 0.2
#: errors of ipyparallel and of dask that report the death of a worker
_DEATHS = ("EngineError", "KilledWorker")
#: runs of a process seed the global generators and share its folder: one at a time
_one_at_a_time = threading.Lock()


def check_executor(executor: Any) -> None:
    """Refuse what cannot run points."""
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise MachineError(
            "executor must be an executor as in concurrent.futures, with a method submit(function, *args), "
            f"such as ProcessPoolExecutor(4) or Client().get_executor() of dask; got {executor!r}"
        )


def is_this_process(executor: Any) -> bool:
    """Return whether the executor's workers certainly are threads of this process."""
    return isinstance(executor, ThreadPoolExecutor)


class ExecutorPool:
    """Runs points on an executor, which the caller created and shuts down.

    Parameters
    ----------
    job : bytes
        What all points have in common, packed.
    setting : mapping
        Of this process, see `labkit.study.worker_setup`.
    executor : concurrent.futures.Executor
        Or any object whose ``submit`` returns objects with ``done()`` and ``result()``.
    """

    def __init__(self, job: bytes, setting: Mapping[str, Any], executor: Any) -> None:
        self._job, self._setting, self._executor = job, setting, executor
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._points: dict[int, tuple[Point, Any]] = {}  # by id of the future, which is kept here
        self._silent: list[Any] = []  # futures that do not call back

    @property
    def has_room(self) -> bool:
        """Whether another point can be submitted."""
        return len(self._points) < MOST_AHEAD

    def submit(self, point: Point, packed: bytes) -> None:
        """Submit a point.

        Raises
        ------
        BrokenExecutor
            A worker has died, and the executor with it.
        MachineError
            The executor takes no work.
        """
        try:
            future = self._executor.submit(run_point, __version__, self._setting, self._job, packed)
        except BrokenExecutor:
            raise
        except Exception as error:
            raise MachineError(
                f"the executor takes no work ({type(error).__name__}: {error}); create a new one"
            ) from error
        self._points[id(future)] = point, future
        if hasattr(future, "add_done_callback"):
            future.add_done_callback(self._done.put)
        else:
            self._silent.append(future)

    def next(self) -> tuple[Point, Found]:
        """Wait until a point is done or lost.

        Raises
        ------
        BrokenExecutor
            A worker has died, and the executor with it.
        """
        future = self._finished()
        point, _ = self._points.pop(id(future))
        try:
            return point, pickle.loads(future.result())
        except BrokenExecutor:  # points that had finished were returned before
            raise
        except Exception as error:  # whatever the worker or the way back has raised
            return point, Found(failure=failure_of(error, "worker"))

    def close(self) -> None:
        """Cancel what has not begun; a point that runs ends at its time limit."""
        for _, future in self._points.values():
            with contextlib.suppress(Exception):  # an executor that is gone
                future.cancel()
        self._points.clear()

    def _finished(self) -> Any:
        """Wait for a future that is done."""
        while not self._silent:
            with contextlib.suppress(queue.Empty):
                return self._done.get(timeout=LOOK_S)
        while True:
            for future in self._silent:
                if future.done():
                    self._silent.remove(future)
                    return future
            time.sleep(LOOK_S)


def run_point(version: str, setting: Mapping[str, Any], job: bytes, point: bytes) -> bytes:
    """Run one point in a process that others use as well: an engine, or the worker of an executor."""
    from labkit.study.worker import answer, load

    if version != __version__:
        raise MachineError(f"this worker has labkit {__version__}, and its client {version}")
    with _one_at_a_time, settle(setting):
        return answer(load(job), point)


def failure_of(error: Exception, worker: str) -> LabkitError:
    """Return the failure of a point whose worker did not answer."""
    kind, text = getattr(error, "ename", type(error).__name__), " ".join(str(error).split())[:300]
    if kind == "ModuleNotFoundError" and "labkit" in text:
        return MachineError(f"labkit cannot be used on the {worker}: {text}; install it there")
    if kind in _DEATHS:
        return MachineError(f"its {worker} died: {text}")
    return MachineError(f"its {worker} failed: {kind}{f': {text}' if text else ''}")
