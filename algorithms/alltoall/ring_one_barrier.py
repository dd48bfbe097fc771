"""Alltoall by shifts, after a barrier.

In round i = 1, ..., p - 1 rank r sends to r + i and receives from r - i (mod p), whatever p is. Before the
first round all meet in a barrier (dissemination).

**Cost**: ``(p-1+ceil(log2 p))*alpha + (p-1)*n*beta``.

**Requires**: nothing; any number of ranks.

**Properties**: the barrier keeps early ranks from disturbing the rounds of late ones; it pays where ranks
come at different times and messages are long.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> cost(8, 100)
Cost(rounds=10, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.alltoall._exchange import cost_of, rounds_of
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield p - 1 exchanges after a barrier."""
    return rounds_of(group, is_paired=False, barriers="one")


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return cost_of(ranks, n_bytes, "one")


ALGORITHM = Algorithm("ring_one_barrier", "alltoall", schedule=rounds, cost=cost)
