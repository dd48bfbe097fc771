"""The master's side of a pool, its futures, and what a worker does."""

from __future__ import annotations

import atexit
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, as_completed
from concurrent.futures import Future as _Future
from itertools import islice
from pickle import PicklingError
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.status import Status
from labkit.comm.intracomm import COMM_SELF, COMM_WORLD
from labkit.comm.pickling import pickle
from labkit.comm.spawning import Wanted, parent, spawn
from labkit.errors import UnsupportedError
from labkit.program.context import simulated

if TYPE_CHECKING:
    from labkit.comm.intracomm import Intracomm

__all__ = [
    "Alone",
    "Future",
    "MPICommExecutor",
    "MPIPoolExecutor",
    "Manager",
    "ProcessPoolExecutor",
    "ThreadPoolExecutor",
    "collect",
    "compose",
    "get_comm_workers",
    "now",
    "pool_manager",
    "serve",
    "spawned_manager",
    "workers_of_rank",
]


#: an initializer and its arguments
_First = tuple[Callable[..., object], tuple[object, ...], dict[str, object]]
_ANY = CONSTANTS["ANY_SOURCE"]
#: tags of what goes to workers, and of what comes back
_TASK, _RESULT = 11, 12
_SERVING = "serving a pool"
#: bytes of a message that lets a worker go
_EMPTY = len(pickle.dumps(None))


class Future(_Future[Any]):
    """The result of a task that a worker computes."""


class Manager:
    """The master's side of a pool.

    Parameters
    ----------
    comm : Intracomm
        Of the master and its workers, for nothing else.
    master : int
        Its rank there.
    """

    def __init__(self, comm: Any, master: int) -> None:
        self.comm, self.master = comm, master
        self.workers = [rank for rank in range(comm.size) if rank != master]
        self._free = deque(self.workers)
        self._waiting: deque[tuple[Future, object]] = deque()
        self._running: dict[int, Future] = {}
        #: what a worker does first, those that have done it, and why no task can be done: it has failed
        self.first: _First | None = None
        self._begun: set[int] = set()
        self._broken = ""
        #: a rank that waits for a lock or an event takes results meanwhile
        simulated().pools.append(self)

    def submit(self, task: object) -> Future:
        """Take a task, and send it off if a worker is free."""
        if self._broken:
            raise BrokenExecutor(self._broken)
        future = Future()
        if not self.workers:  # alone: the master computes it itself
            if self.first is not None and not self._begun:
                self._begun.add(self.master)
                if not _begins(self.first):
                    self._waiting.append((future, task))
                    self._break()
                    return future
            future.set_running_or_notify_cancel()
            serving, key = simulated().calls.private, (_SERVING, simulated().rank)
            before, serving[key] = serving.get(key), (None, 0)
            _settle(future, *_outcome(task))
            serving[key] = before
            return future
        self._waiting.append((future, task))
        self._dispatch()
        return future

    @property
    def is_running(self) -> bool:
        """Whether a result is to come."""
        return bool(self._running)

    def has_result(self) -> bool:
        """Whether one has arrived."""
        return bool(self.comm.iprobe(_ANY, _RESULT))

    def take(self) -> None:
        """Take the next result, waiting for it, and let its worker go on."""
        status = Status()
        is_good, value = self.comm.recv(None, _ANY, _RESULT, status)
        worker = status.Get_source()
        future = self._running.pop(worker)
        self._free.append(worker)
        if is_good is None:
            self._break()
            is_good, value = False, BrokenExecutor(self._broken)
        self._dispatch()
        _settle(future, is_good, value)

    def finish(self) -> None:
        """Wait until every task is done."""
        while self._running:
            self.take()

    def cancel(self) -> None:
        """Cancel what has not been sent off."""
        while self._waiting:
            self._waiting.popleft()[0].cancel()

    def dismiss(self) -> None:
        """Release the workers."""
        for worker in self.workers:
            self.comm.send(None, worker, _TASK)
        simulated().pools.remove(self)

    def renew(self, first: _First | None) -> None:
        """Begin another pool with the same workers."""
        self.first, self._begun, self._broken = first, set(), ""

    def _break(self) -> None:
        """Fail every task that has not been sent off: a worker's initializer has failed."""
        self._broken = "initializer failed"
        while self._waiting:
            future, _ = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                future.set_exception(BrokenExecutor(self._broken))

    def _dispatch(self) -> None:
        while self._free and self._waiting:
            future, task = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            worker = self._free[0]
            first = self.first if worker not in self._begun else None
            try:
                self.comm.send((first, task), worker, _TASK)
            except (PicklingError, AttributeError, TypeError) as error:  # a task that cannot be pickled
                _settle(future, False, error)
                continue
            self._free.popleft()
            self._running[worker] = future
            self._begun.add(worker)


def now() -> float:
    """Return the running rank's clock."""
    machine = simulated()
    return time.monotonic() if machine is None else float(machine.wtime())


def _outcome(task: Any) -> tuple[bool, object]:
    function, args, kwargs = task
    try:
        return True, function(*args, **kwargs)
    except (Exception, SystemExit) as error:
        return False, error


def _begins(first: _First) -> bool:
    """Call an initializer; whether it has returned."""
    function, args, kwargs = first
    try:
        function(*args, **kwargs)
    except (Exception, SystemExit):
        return False
    return True


def _settle(future: Future, is_good: bool, value: Any) -> None:
    if is_good:
        future.set_result(value)
    else:
        future.set_exception(value)


def serve(comm: object, master: int, prepare: Callable[[], object] | None = None) -> None:
    """Be a worker: do the master's tasks until it lets this rank go."""
    serving = simulated().calls.private
    key = _SERVING, simulated().rank
    before, serving[key] = serving.get(key), (comm, master)
    try:
        _serve(comm, master, prepare)
    finally:
        serving[key] = before


def workers_of_rank() -> Intracomm | None:
    """Return the communicator of the workers among which the running rank is; None: it serves no pool."""
    private = simulated().calls.private
    found = private.get((_SERVING, simulated().rank))
    if found is None:
        return None
    comm, master = found
    if comm is None:
        return COMM_SELF
    key = _SERVING, "communicator", comm._context
    if key not in private:
        private[key] = comm._without(master)
    return type(COMM_WORLD)(private[key])


def _serve(comm: Any, master: int, prepare: Callable[[], object] | None) -> None:
    while True:
        status = Status()
        comm.probe(master, _TASK, status)
        if prepare is not None and status.Get_count() > _EMPTY:
            prepare()
            prepare = None
        job = comm.recv(None, master, _TASK)
        if job is None:
            return
        first, task = job
        if first is not None and not _begins(first):
            comm.send((None, None), master, _RESULT)
            continue
        is_good, value = _outcome(task)
        try:
            comm.send((is_good, value), master, _RESULT)
        except Exception as error:  # a result that cannot be pickled
            comm.send((False, error), master, _RESULT)


class Alone:
    """The communicator of a master without workers."""

    size = 1


def compose(future: Any, resulthook: Any = None, excepthook: Any = None) -> Future:
    """Return the future of what a future becomes: ``resulthook(result)``, or ``excepthook(exception)``."""
    made = Future()
    made.set_running_or_notify_cancel()

    def settle(done: Any) -> None:
        try:
            error = done.exception(0)
            if error is None:
                made.set_result(done.result(0) if resulthook is None else resulthook(done.result(0)))
            elif excepthook is None:
                made.set_exception(error)
            else:
                value = excepthook(error)
                made.set_exception(value) if isinstance(value, BaseException) else made.set_result(value)
        except BaseException as raised:
            made.set_exception(raised)

    future.add_done_callback(settle)
    return made


def collect(futures: Iterable[Any]) -> Future:
    """Return the future of the list of all results."""
    futures = list(futures)
    made = Future()
    if not futures:
        made.set_result([])
        return made
    made.set_running_or_notify_cancel()
    left = len(futures)

    def settle(done: Any) -> None:
        nonlocal left
        left -= 1
        if made.done():
            return
        if done.cancelled() or done.exception(0) is not None:
            made.set_exception(CancelledError() if done.cancelled() else done.exception(0))
        elif left == 0:
            made.set_result([one.result(0) for one in futures])

    for one in futures:
        one.add_done_callback(settle)
    return made


def spawned_manager(count: int) -> Manager:
    """Return the master's side of a pool of workers that the running rank spawns."""
    made, _ = spawn(COMM_SELF, "MPIPoolExecutor", 0, lambda: [Wanted(("worker",), count, _work)])
    merged = made.Merge(high=False)
    made.Disconnect()
    return Manager(merged, 0)


def _work(load: Callable[[], None]) -> None:
    """Be a spawned worker."""
    link = parent()
    own = link.Merge(high=True)
    link.Disconnect()
    serve(own, 0, load)
    own.Free()


def pool_manager() -> Manager:
    """Return the master's side of the job's pool: rank 0, with all others as workers."""
    own = COMM_WORLD.Dup()
    return Manager(own, 0)


# The executors of mpi4py.futures.


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
        self,
        max_workers: int | None = None,
        initializer: object = None,
        initargs: Any = (),
        **options: object,
    ) -> None:
        if max_workers is not None and int(max_workers) <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._asked = None if max_workers is None else int(max_workers)
        self._is_own = False
        named = dict(cast("Mapping[str, object]", options.pop("initkwargs", {})))
        self._first = None if initializer is None else (initializer, tuple(initargs), named)
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
        """Release the workers that were started for this pool."""
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

    def submit(self, fn: Callable[..., object], /, *args: object, **kwargs: object) -> Future:
        """Schedule ``fn(*args, **kwargs)``."""
        if self._is_over:
            raise RuntimeError("cannot submit after shutdown")
        return self._pool().submit((fn, args, kwargs))

    def map(
        self,
        fn: Callable[..., object],
        *iterables: Iterable[object],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        unordered: bool = False,
    ) -> Iterator[Any]:
        """Return an iterator over ``map(fn, *iterables)``, computed by the workers."""
        return self.starmap(fn, zip(*iterables, strict=False), timeout, chunksize, buffersize, unordered)

    def starmap(
        self,
        fn: Callable[..., object],
        iterable: Iterable[object],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        unordered: bool = False,
    ) -> Iterator[Any]:
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


def _chunk(function: Callable[..., object], chunk: list[Any]) -> list[object]:
    return [function(*args) for args in chunk]


def _results(futures: list[Future], until: float | None, unordered: bool) -> Iterator[object]:
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
