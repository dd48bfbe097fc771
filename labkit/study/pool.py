"""Worker processes of this host for the points of a sweep."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, ThreadPoolExecutor
from concurrent.futures import wait as wait_futures
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from labkit import __version__
from labkit.errors import LabkitError, MachineError, TimeLimitError
from labkit.process.child import ChildProcess, ending_text, telling_words
from labkit.study.measure import Found
from labkit.study.points import Point
from labkit.study.worker_setup import settle, workers_seed

__all__ = [
    "EnginePool",
    "ExecutorPool",
    "LocalPool",
    "check_executor",
    "failure_of",
    "is_this_process",
    "run_point",
]


#: how long a worker may take to come up on a busy host
START_S = 120.0
#: a simulation ends at its limit itself, with a report; its worker is killed only if it has not
GRACE_S = 10.0
#: how long workers without work wait for the next sweep
_FREE_S = 20.0
#: how long one may take to look at the files of its modules
_CURRENT_S = 5.0
#: how frequently the clock is looked at
LOOK_S = 0.2


@dataclass(eq=False)
class _Worker:
    """One process, the ways to it and from it, and what it is doing.

    `kind`: Of sweeps that it can work for.
    """

    kind: object
    process: ChildProcess
    words: Any
    requests: Connection[Any, Any]
    answers: Connection[Any, Any]
    deadline: float | None
    is_ready: bool = False
    point: Point | None = None

    def is_current(self) -> bool:
        """Whether it lives, and no file that it has read a module from has changed."""
        try:
            self.requests.send(None)
            is_current = self.answers.poll(_CURRENT_S) and self.answers.recv() is True
        except (EOFError, OSError):
            return False
        self.words.seek(0)  # its process writes at the same place
        self.words.truncate()
        return is_current

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.process.end()
        for one in (self.requests, self.answers, self.words):
            one.close()


class _FreeWorkers:
    """Workers of sweeps that are over: the next one need not start its own, which takes a second each."""

    def __init__(self) -> None:
        self._workers: list[_Worker] = []
        self._owner, self._lock = os.getpid(), threading.Lock()
        self._timer: threading.Timer | None = None

    def keep(self, worker: _Worker) -> None:
        """Keep a worker for a while; in a forked process, end it."""
        if self._owner != os.getpid():
            worker.end()
            return
        with self._lock:
            self._workers.append(worker)
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(_FREE_S, self.end)
            self._timer.daemon = True
            self._timer.start()

    def take(self, kind: object) -> _Worker | None:
        """Return a worker of a kind, if there is one; a forked process leaves its parent's alone."""
        while self._owner == os.getpid():
            with self._lock:
                worker = next((one for one in self._workers if one.kind == kind), None)
                if worker is None:
                    break
                self._workers.remove(worker)
            if worker.is_current():
                return worker
            worker.end()
        return None

    def end(self) -> None:
        """End all of them."""
        if self._owner != os.getpid():
            return
        with self._lock:
            workers, self._workers = self._workers, []
        for worker in workers:
            worker.end()


_free = _FreeWorkers()
atexit.register(_free.end)


class LocalPool:
    """Runs points in processes of this host, each its own interpreter for one point after another.

    `job`: What all points have in common, packed.
    `setting`: Of this process, see `labkit.study.worker_setup`.
    `jobs`: Processes at the same time.
    `limit_s`: How long one run may take.
    `repeats`: Runs of one point at the most.
    `hash_seed`: Of their interpreters; default: the same for all workers, and that of this process if it is
        known.
    """

    def __init__(
        self,
        job: bytes,
        setting: Mapping[str, Any],
        jobs: int,
        limit_s: float | None,
        repeats: int,
        hash_seed: str | None = None,
    ) -> None:
        self._job, self._setting, self._jobs = job, setting, jobs
        self._hash_seed = workers_seed() if hash_seed is None else hash_seed
        self._limit_s = None if limit_s is None else limit_s * repeats + GRACE_S
        self._workers: list[_Worker] = []

    @property
    def has_room(self) -> bool:
        """Whether another point can be given out."""
        return sum(worker.point is not None for worker in self._workers) < self._jobs

    def submit(self, point: Point, packed: bytes) -> None:
        """Give a point to a worker that is free, or to a new one."""
        worker = next((one for one in self._workers if one.point is None), None) or self._start()
        worker.point = point
        self._send(worker, packed)
        if worker.is_ready:
            worker.deadline = self._until(self._limit_s)

    def next(self) -> tuple[Point, Found]:
        """Wait until a point is done, or lost.

        Raises LabkitError: The workers cannot work at all.
        """
        while True:
            ready = wait([worker.answers for worker in self._workers], LOOK_S)
            for worker in [one for one in self._workers if one.answers in ready]:
                if (done := self._hear(worker)) is not None:
                    return done
            now = time.monotonic()
            for worker in self._workers:
                if worker.deadline is not None and now > worker.deadline and worker.point is not None:
                    return self._late(worker)

    def close(self) -> None:
        """Leave free workers to the next sweep, and end the others, whatever they are doing."""
        for worker in list(self._workers):
            if worker.is_ready and worker.point is None:
                self._workers.remove(worker)
                _free.keep(worker)
            else:
                self._end(worker)

    # --- processes ----------------------------------------------------------------------------------

    def _start(self) -> _Worker:
        kind = self._hash_seed, sorted(os.environ.items()), self._search_path()
        worker = _free.take(kind) or self._started(kind)
        worker.is_ready, worker.deadline = False, self._until(START_S)
        self._workers.append(worker)
        self._send(worker, self._setting)
        self._send(worker, self._job)
        return worker

    def _started(self, kind: object) -> _Worker:
        words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
        command = [sys.executable, "-P", *flags, "-m", "labkit.study.worker"]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(self._search_path()),
            "PYTHONHASHSEED": self._hash_seed,
        }
        try:
            process = ChildProcess(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                cwd="/",
                environment=environment,
            )
        except OSError as error:
            raise MachineError(f"a worker process cannot be started: {error}", code="not-started") from error
        assert process.popen.stdin is not None
        assert process.popen.stdout is not None
        requests: Connection[Any, Any] = Connection(os.dup(process.popen.stdin.fileno()), readable=False)
        answers: Connection[Any, Any] = Connection(os.dup(process.popen.stdout.fileno()), writable=False)
        return _Worker(kind, process, words, requests, answers, None)

    def _search_path(self) -> list[str]:
        return [path for path in self._setting["path"] if os.path.isdir(path)]

    def _send(self, worker: _Worker, message: object) -> None:
        with contextlib.suppress(OSError):  # it is gone: that is noticed where its answer is waited for
            worker.requests.send(message)

    def _end(self, worker: _Worker) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        worker.end()

    @staticmethod
    def _until(seconds: float | None) -> float | None:
        return None if seconds is None else time.monotonic() + seconds

    # --- answers ------------------------------------------------------------------------------------

    def _hear(self, worker: _Worker) -> tuple[Point, Found] | None:
        """Take in what a worker says; a point that is done, or lost, is returned."""
        try:
            message = worker.answers.recv()
        except (EOFError, OSError):
            return self._lost(worker)
        if isinstance(message, LabkitError):
            raise message
        if message == "ready":
            worker.is_ready = True
            worker.deadline = self._until(self._limit_s) if worker.point is not None else None
            return None
        point, worker.point, worker.deadline = worker.point, None, None
        assert point is not None
        return point, pickle.loads(message)

    def _lost(self, worker: _Worker) -> tuple[Point, Found] | None:
        """Describe how a worker ended; one that never worked ends the sweep."""
        worker.process.wait(5)
        how, words = ending_text(worker.process.code), telling_words(worker.words)
        point, is_ready = worker.point, worker.is_ready
        self._end(worker)
        if not is_ready:
            raise MachineError(
                f"a worker process {how} before it could work: {words or 'it printed nothing'}",
                code="lost-process",
            )
        if point is None:
            return None
        return point, Found(
            failure=MachineError(
                f"its worker process {how}{f': {words}' if words else ''}", code="lost-process"
            )
        )

    def _late(self, worker: _Worker) -> tuple[Point, Found]:
        point, is_ready = worker.point, worker.is_ready
        assert point is not None
        self._end(worker)
        if not is_ready:
            raise MachineError(f"a worker process did not start within {START_S:g} s", code="not-started")
        assert self._limit_s is not None
        text = f"its worker process had not ended {GRACE_S:g} s after the time limit, and was killed"
        return point, Found(failure=TimeLimitError(text))


# An executor of `concurrent.futures` as the workers for the points of a sweep.


#: points that are submitted ahead; an executor queues them, and each carries the program
MOST_AHEAD = 1024
#: errors of ipyparallel and of dask that report the death of a worker
_DEATHS = ("EngineError", "KilledWorker")
#: runs of a process seed the global generators and share its folder: one at a time
_one_at_a_time = threading.Lock()


def check_executor(executor: object) -> None:
    """Refuse what cannot run points."""
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise MachineError(
            "executor must be an executor as in concurrent.futures, with a method submit(function, *args), "
            f"such as ProcessPoolExecutor(4) or Client().get_executor() of dask; got {executor!r}",
            code="wrong-type",
        )


def is_this_process(executor: object) -> bool:
    """Return whether the executor's workers certainly are threads of this process."""
    return isinstance(executor, ThreadPoolExecutor)


class ExecutorPool:
    """Runs points on an executor, which the caller created and shuts down.

    `job`: What all points have in common, packed.
    `setting`: Of this process, see `labkit.study.worker_setup`.
    `executor`: Or any object whose ``submit`` returns objects with ``done()`` and ``result()``.
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

        Raises BrokenExecutor: A worker has died, and the executor with it.
        Raises MachineError: The executor takes no work.
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

        Raises BrokenExecutor: A worker has died, and the executor with it.
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
    from labkit.study.worker import answer, unpack_sent

    if version != __version__:
        raise MachineError(
            f"this worker has labkit {__version__}, and its client {version}", code="version-mismatch"
        )
    with _one_at_a_time, settle(setting):
        return answer(unpack_sent(job), point)


def failure_of(error: Exception, worker: str) -> LabkitError:
    """Return the failure of a point whose worker did not answer."""
    kind, text = getattr(error, "ename", type(error).__name__), " ".join(str(error).split())[:300]
    if kind == "ModuleNotFoundError" and "labkit" in text:
        return MachineError(
            f"labkit cannot be used on the {worker}: {text}; install it there", code="not-started"
        )
    if kind in _DEATHS:
        return MachineError(f"its {worker} died: {text}", code="lost-process")
    return MachineError(f"its {worker} failed: {kind}{f': {text}' if text else ''}")


# The engines of an ipyparallel cluster as workers for the points of a sweep.


#: how long an engine may take to end a point that is interrupted
STOP_S = 5.0


@dataclass(eq=False)
class _Task:
    point: Point
    reply: Any
    deadline: float | None


class EnginePool:
    """Runs points on the engines of a cluster, whichever is free.

    `job`: What all points have in common, packed.
    `setting`: Of this process.
    `jobs`: The cluster.
    `limit_s`: How long one run may take.
    `repeats`: Runs of one point at the most.
    Raises MachineError: It is no cluster that is running, or has no engines.
    """

    def __init__(
        self, job: bytes, setting: Mapping[str, Any], jobs: object, limit_s: float | None, repeats: int
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
                f"the cluster takes no work ({type(error).__name__}: {error}); start it again"
            ) from error
        deadline = None if self._limit_s is None else time.monotonic() + self._limit_s
        self._tasks.append(_Task(point, reply, deadline))

    def next(self) -> tuple[Point, Found]:
        """Wait until a point is done, or lost."""
        while True:
            if not self._tasks:
                raise MachineError(
                    "the cluster has no engines left that could go on; start another one", code="not-started"
                )
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


def _view_of(jobs: object) -> Any:
    import ipyparallel

    from labkit.real.engines.target import find_target

    if isinstance(jobs, ipyparallel.LoadBalancedView):
        if not jobs.client.ids:
            raise MachineError(
                "the cluster behind this view has no engines (any more); start them again", code="not-started"
            )
        return jobs
    target = find_target(jobs)
    chosen = None if len(target.engines) == len(target.client.ids) else target.engines
    return target.client.load_balanced_view(chosen)
