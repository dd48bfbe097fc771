"""Collective operations by name, prepared for timing: buffers are made before, and the call is bare."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from labkit import context
from labkit.errors import DataError
from labkit.phantom import sized
from labkit.real.cores import available_cores
from labkit.timing import measure
from labkit.timing.window import wait_until

__all__ = [
    "OPERATIONS", "Job", "bench_call", "buffer", "busy_host", "check_names", "prepare", "rounds",
    "time_jobs", "whole_numbers",
]  # fmt: skip

#: a side of a guideline with its sizes: (operation, bytes, times) one after the other
Job = tuple[tuple[str, float, float], ...]

_WORD = 8
#: of the repetitions of a launch on a real machine
_ROUNDS = 3
#: simulated ranks wait for a moment so far ahead: simulated time costs nothing
_AHEAD_S = 1.0


def buffer(count: int) -> Any:
    """Return so many numbers: a phantom buffer on a simulated machine."""
    return sized(count, np.float64) if context.simulated() is not None else np.zeros(count)


class _Buffers:
    """Makes the buffers of an operation."""

    def __init__(self, comm: Any, n_bytes: float) -> None:
        self.p, self.is_root = comm.Get_size(), comm.Get_rank() == 0
        self.n = math.ceil(n_bytes / _WORD)
        self.counts = [self.n] * self.p

    def __call__(self, count: int) -> Any:
        return buffer(count)

    @property
    def one(self) -> Any:
        return self(self.n)

    @property
    def all(self) -> Any:
        return self(self.n * self.p)

    def at_root(self, make: Callable[[], Any]) -> Any:
        return make() if self.is_root else None


def _reduce_local(c: Any, b: _Buffers) -> Callable[[], Any]:
    from labkit import MPI

    x, y = b.one, b.one
    return lambda: MPI.SUM.Reduce_local(x, y)


def _bound(call: Callable[..., Any], *buffers: Any) -> Callable[[], Any]:
    return lambda: call(*buffers)


#: by name: from a communicator and buffers to the call
OPERATIONS: dict[str, Callable[[Any, _Buffers], Callable[[], Any]]] = {
    "barrier": lambda c, b: c.Barrier,
    "bcast": lambda c, b: _bound(c.Bcast, b.one),
    "reduce": lambda c, b: _bound(c.Reduce, b.one, b.at_root(lambda: b.one)),
    "allreduce": lambda c, b: _bound(c.Allreduce, b.one, b.one),
    "gather": lambda c, b: _bound(c.Gather, b.one, b.at_root(lambda: b.all)),
    "scatter": lambda c, b: _bound(c.Scatter, b.at_root(lambda: b.all), b.one),
    "allgather": lambda c, b: _bound(c.Allgather, b.one, b.all),
    "alltoall": lambda c, b: _bound(c.Alltoall, b.all, b.all),
    "gatherv": lambda c, b: _bound(c.Gatherv, b.one, b.at_root(lambda: [b.all, b.counts])),
    "scatterv": lambda c, b: _bound(c.Scatterv, b.at_root(lambda: [b.all, b.counts]), b.one),
    "allgatherv": lambda c, b: _bound(c.Allgatherv, b.one, [b.all, b.counts]),
    "allgatherv_of_one": lambda c, b: _bound(
        c.Allgatherv, b(b.n if b.is_root else 0), [b.one, [b.n] + [0] * (b.p - 1)]
    ),
    "alltoallv": lambda c, b: _bound(c.Alltoallv, [b.all, b.counts], [b.all, b.counts]),
    "reduce_scatter_block": lambda c, b: _bound(c.Reduce_scatter_block, b.all, b.one),
    "reduce_scatter": lambda c, b: _bound(c.Reduce_scatter, b.all, b.one, b.counts),
    "scan": lambda c, b: _bound(c.Scan, b.one, b.one),
    "exscan": lambda c, b: _bound(c.Exscan, b.one, b.one),
    "reduce_local": _reduce_local,
}


def prepare(comm: Any, job: Job) -> Callable[[], None]:
    """Return what carries out a job: its operations one after the other, each as often as it says."""
    calls = [OPERATIONS[name](comm, _Buffers(comm, n)) for name, n, times in job for _ in range(round(times))]

    def carry_out() -> None:
        for call in calls:
            call()

    return carry_out


def check_names(names: Sequence[str]) -> None:
    """Refuse operations that cannot be called."""
    lost = [name for name in names if name.lower() not in OPERATIONS]
    if lost:
        raise DataError(
            f"{lost[0]!r} is no operation that can be run here; there are {', '.join(sorted(OPERATIONS))}; "
            "for other names measure yourself, and ask study.guideline(...)"
        )


def time_jobs(comm: Any, jobs: Sequence[Job], seed: int, repeats: int) -> list[tuple[int, list[float]]]:
    """Time jobs: once on a simulated machine, repeatedly on a real one.

    There it goes in rounds, each in another order, so that what disturbs the host for a while disturbs more
    than one side of a guideline.
    """
    rng = np.random.default_rng(seed)
    calls = [prepare(comm, job) for job in jobs]
    found = []
    for count in rounds(repeats):
        found += [(int(k), bench_call(comm, calls[k], count)) for k in rng.permutation(len(jobs))]
    return found


def rounds(repeats: int) -> list[int]:
    """Return how many repetitions each round has; one is enough on a simulated machine."""
    if context.simulated() is not None:
        return [1]
    whole, rest = divmod(repeats, _ROUNDS)
    return [count for k in range(_ROUNDS) if (count := whole + (k < rest))]


def bench_call(comm: Any, call: Callable[[], Any], repeats: int) -> list[float]:
    """Time a call: repeatedly on a real machine, once on a simulated one, where all ranks begin together."""
    from labkit import MPI

    machine = context.simulated()
    if machine is None:
        return list(measure(comm, call, repeats=repeats).times_s)
    moment = comm.allreduce(machine.wtime(), op=MPI.MAX) + _AHEAD_S
    wait_until(moment, machine.wtime)
    begin = machine.wtime()
    call()
    return [float(comm.allreduce(machine.wtime() - begin, op=MPI.MAX))]


def busy_host() -> str:
    """Say that others use this host's cores already; empty where they do not, or it is not known."""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        return ""
    cores = available_cores()
    return (
        f"this host is busy: a load of {load:.1f} on {cores} cores before the first run"
        if load > cores
        else ""
    )


def whole_numbers(values: Any, name: str, least: int) -> list[int]:
    """Return whole numbers, each once and in order."""
    some = [values] if isinstance(values, int | np.integer) else list(values)
    if not some or any(isinstance(v, bool) or not isinstance(v, int | np.integer) or v < least for v in some):
        raise DataError(f"{name} are whole numbers of at least {least}, one or more; got {values!r}")
    return sorted({int(v) for v in some})
