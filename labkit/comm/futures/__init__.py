"""mpi4py.futures on a simulated machine: an executor whose master is a rank, and whose workers are ranks.

mpi4py's own master talks to the workers in a thread next to the program; here the program's own calls do
it: a task leaves when it is submitted (or when a worker becomes free while the master waits), and results are
taken while the master waits for one. `MPICommExecutor` works in any program. `MPIPoolExecutor` works in
scripts: under ``-m mpi4py.futures`` rank 0 runs the program and all others are its workers; else workers are
spawned, as by `Intracomm.Spawn`.
"""

from __future__ import annotations

from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    BrokenExecutor,
    CancelledError,
    Executor,
    InvalidStateError,
    TimeoutError,
    as_completed,
    wait,
)

from labkit.comm.futures.manager import (
    Future,
    MPICommExecutor,
    MPIPoolExecutor,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    collect,
    compose,
    get_comm_workers,
)

__all__ = [
    "ALL_COMPLETED",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "BrokenExecutor",
    "CancelledError",
    "Executor",
    "Future",
    "InvalidStateError",
    "MPICommExecutor",
    "MPIPoolExecutor",
    "ProcessPoolExecutor",
    "ThreadPoolExecutor",
    "TimeoutError",
    "as_completed",
    "collect",
    "compose",
    "get_comm_workers",
    "wait",
]
