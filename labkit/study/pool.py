"""Worker processes of this host for the points of a sweep."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from labkit.errors import LabkitError, MachineError, TimeLimitError
from labkit.process.child import ChildProcess, ending_text, telling_words
from labkit.study.measure import Found
from labkit.study.points import Point
from labkit.study.worker_setup import workers_seed

__all__ = ["LocalPool"]

#: how long a worker may take to come up on a busy host
START_S = 120.0
#: a simulation ends at its limit itself, with a report; its worker is killed only if it has not
GRACE_S = 10.0
#: how often the clock is looked at
LOOK_S = 0.2


@dataclass(eq=False)
class _Worker:
    """One process, the ways to it and from it, and what it is doing."""

    process: ChildProcess
    words: Any
    requests: Connection[Any, Any]
    answers: Connection[Any, Any]
    deadline: float | None
    is_ready: bool = False
    point: Point | None = None


class LocalPool:
    """Runs points in processes of this host, each an interpreter of its own for one point after another.

    Parameters
    ----------
    job : bytes
        What all points have in common, packed.
    setting : mapping
        Of this process, see `labkit.study.worker_setup`.
    jobs : int
        Processes at the same time.
    limit_s : float or None
        How long one run may take.
    repeats : int
        Runs of one point at the most.
    hash_seed : str, optional
        Of their interpreters; default: the same for all workers, and that of this process if it is known.
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

        Raises
        ------
        LabkitError
            The workers cannot work at all.
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
        """End all workers, whatever they are doing."""
        for worker in list(self._workers):
            self._end(worker)

    # --- processes ----------------------------------------------------------------------------------

    def _start(self) -> _Worker:
        words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
        command = [sys.executable, "-P", *flags, "-m", "labkit.study.worker"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(self._search_path()),
                       "PYTHONHASHSEED": self._hash_seed}  # fmt: skip
        try:
            process = ChildProcess(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words, cwd="/",
                environment=environment,
            )  # fmt: skip
        except OSError as error:
            raise MachineError(f"a worker process cannot be started: {error}") from error
        assert process.popen.stdin is not None
        assert process.popen.stdout is not None
        requests: Connection[Any, Any] = Connection(os.dup(process.popen.stdin.fileno()), readable=False)
        answers: Connection[Any, Any] = Connection(os.dup(process.popen.stdout.fileno()), writable=False)
        worker = _Worker(process, words, requests, answers, self._until(START_S))
        self._workers.append(worker)
        self._send(worker, self._setting)
        self._send(worker, self._job)
        return worker

    def _search_path(self) -> list[str]:
        return [path for path in self._setting["path"] if os.path.isdir(path)]

    def _send(self, worker: _Worker, message: Any) -> None:
        with contextlib.suppress(OSError):  # it is gone: that is noticed where its answer is waited for
            worker.requests.send(message)

    def _end(self, worker: _Worker) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        worker.process.end()
        for one in (worker.requests, worker.answers, worker.words):
            one.close()

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
        """Say how a worker ended; one that never worked ends the sweep."""
        worker.process.wait(5)
        how, words = ending_text(worker.process.code), telling_words(worker.words)
        point, is_ready = worker.point, worker.is_ready
        self._end(worker)
        if not is_ready:
            raise MachineError(f"a worker process {how} before it could work: {words or 'it said nothing'}")
        if point is None:
            return None
        return point, Found(failure=MachineError(f"its worker process {how}{f': {words}' if words else ''}"))

    def _late(self, worker: _Worker) -> tuple[Point, Found]:
        point, is_ready = worker.point, worker.is_ready
        assert point is not None
        self._end(worker)
        if not is_ready:
            raise MachineError(f"a worker process did not come up within {START_S:g} s")
        assert self._limit_s is not None
        text = f"its worker process had not ended {GRACE_S:g} s after the time limit, and was killed"
        return point, Found(failure=TimeLimitError(text))
