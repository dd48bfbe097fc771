"""The executors of mpi4py.futures."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, as_completed
from itertools import islice
from types import TracebackType
from typing import Any

from labkit.comm.communicator import COMM_WORLD
from labkit.comm.futures.manager import Alone, Future, Manager, now, serve, spawned_manager, workers_of_rank
from labkit.context import simulated
from labkit.errors import UnsupportedError

__all__ = [
    "MPICommExecutor",
    "MPIPoolExecutor",
    "ProcessPoolExecutor",
    "ThreadPoolExecutor",
    "get_comm_workers",
]


class MPIPoolExecutor(Executor):
    """An executor whose workers are the job's other ranks, in a program started by ``-m mpi4py.futures``.

    In any other script its workers are ranks that it spawns, which end with it.

    Parameters
    ----------
    max_workers : int, optional
        How many to spawn; default: the environment's ``MPI4PY_FUTURES_MAX_WORKERS``, or 1. Under
        ``-m mpi4py.futures`` the workers are all other ranks, whatever it says.
    initializer : callable, optional
        Called by each worker before its first task, with `initargs`.
    initargs : tuple
    **options
        mpi4py's others: accepted where they change nothing here.
    """

    def __init__(
        self, max_workers: int | None = None, initializer: Any = None, initargs: Any = (), **options: Any
    ) -> None:
        if max_workers is not None and int(max_workers) <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._asked = None if max_workers is None else int(max_workers)
        self._is_own = False
        self._first = None if initializer is None else (initializer, tuple(initargs))
        self._manager: Manager | None = None
        self._is_over = False

    def _pool(self) -> Manager:
        if self._manager is None:
            found = getattr(simulated(), "futures", None)
            self._is_own = found is None
            self._manager = found if found is not None else spawned_manager(self._wanted())
            self._manager.renew(self._first)
            if self._is_own:
                atexit.register(self._end)
        return self._manager

    def _wanted(self) -> int:
        """How many workers to start: as asked for, as the environment says, or as there is room for."""
        if self._asked is not None:
            return self._asked
        for name in ("MPI4PY_FUTURES_MAX_WORKERS", "MPI4PY_MAX_WORKERS"):
            if os.environ.get(name):
                return max(int(os.environ[name]), 1)
        return 1  # the universe is as large as the job

    def _end(self) -> None:
        """Let workers go that were started for this pool."""
        if self._is_own and self._manager is not None:
            self._is_own = False
            self._manager.finish()
            self._manager.dismiss()
            self._manager.comm.Free()

    @property
    def num_workers(self) -> int:
        """Number of workers; 0 after `shutdown`."""
        return 0 if self._is_over else len(self._pool().workers)

    _max_workers = num_workers

    def bootup(self, wait: bool = True) -> MPIPoolExecutor:
        """Make sure that there are workers."""
        if self._is_over:
            raise RuntimeError("cannot bootup after shutdown")
        self._pool()
        return self

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Schedule ``fn(*args, **kwargs)``."""
        if self._is_over:
            raise RuntimeError("cannot submit after shutdown")
        return self._pool().submit((fn, args, kwargs))

    def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None,
        chunksize: int = 1, buffersize: int | None = None, unordered: bool = False,
    ) -> Iterator[Any]:  # fmt: skip
        """Return an iterator over ``map(fn, *iterables)``, computed by the workers."""
        return self.starmap(fn, zip(*iterables, strict=False), timeout, chunksize, buffersize, unordered)

    def starmap(
        self, fn: Callable[..., Any], iterable: Iterable[Any], timeout: float | None = None,
        chunksize: int = 1, buffersize: int | None = None, unordered: bool = False,
    ) -> Iterator[Any]:  # fmt: skip
        """Return an iterator over ``itertools.starmap(fn, iterable)``, computed by the workers."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if buffersize is not None and (not isinstance(buffersize, int) or buffersize < 1):
            raise ValueError("buffersize must be None or > 0")
        if buffersize is not None and unordered:
            raise ValueError("buffersize must be None if unordered")
        items = iter(iterable)
        chunks = iter(lambda: list(islice(items, chunksize)), [])
        futures = [self.submit(_chunk, fn, chunk) for chunk in chunks]
        return _results(futures, None if timeout is None else now() + timeout, unordered)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Finish all tasks; with `cancel_futures` those under way only."""
        is_first, self._is_over = not self._is_over, True
        if self._manager is None:
            return
        if cancel_futures and is_first:
            self._manager.cancel()
        if wait:
            self._manager.finish()
            self._end()


def _chunk(function: Callable[..., Any], chunk: list[Any]) -> list[Any]:
    return [function(*args) for args in chunk]


def _results(futures: list[Future], until: float | None, unordered: bool) -> Iterator[Any]:
    try:
        for future in as_completed(futures) if unordered else futures:
            yield from future.result(None if until is None else until - now())
    finally:
        for future in futures:
            future.cancel()


class ProcessPoolExecutor(MPIPoolExecutor):
    """`MPIPoolExecutor` under the name that concurrent.futures has."""


class ThreadPoolExecutor(MPIPoolExecutor):
    """An executor that computes in the rank itself."""

    def _pool(self) -> Manager:
        if self._manager is None:
            self._manager = Manager(Alone(), 0)
            self._manager.renew(self._first)
        return self._manager


class MPICommExecutor:
    """Context in which one rank of a communicator is the master of all others.

    Parameters
    ----------
    comm : Intracomm, optional
        Default: COMM_WORLD.
    root : int
        The master, which gets an executor; the other ranks work, get None, and go on at the end.
    **options
        As for `MPIPoolExecutor`.
    """

    def __init__(self, comm: Any = None, root: int = 0, **options: Any) -> None:
        comm = COMM_WORLD if comm is None else comm
        if comm.Is_inter():
            raise UnsupportedError(
                "MPICommExecutor over an intercommunicator is not simulated; give it an Intracomm"
            )
        if not 0 <= root < comm.Get_size():
            raise ValueError("expecting root in range(comm.size)")
        self._comm, self._root, self._options = comm, root, options
        self._executor: MPIPoolExecutor | None = None

    def __enter__(self) -> MPIPoolExecutor | None:
        if self._executor is not None:
            raise RuntimeError("__enter__")
        own = self._comm.Dup()
        if own.rank != self._root:
            serve(own, self._root)
            own.Free()
            return None
        self._executor = MPIPoolExecutor(**self._options)
        self._executor._manager = Manager(own, self._root)
        self._executor._manager.renew(self._executor._first)
        return self._executor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._executor is not None:
            manager = self._executor._manager
            assert manager is not None
            self._executor.shutdown(wait=True)
            manager.dismiss()
            manager.comm.Free()
            self._executor = None


def get_comm_workers() -> Any:
    """Return the communicator of the pool's workers, in a task of theirs.

    Raises
    ------
    RuntimeError
        The rank is no worker.
    """
    found = simulated() and workers_of_rank()
    if not found:
        raise RuntimeError("communicator is not accessible: get_comm_workers() is called in a task of a pool")
    return found
