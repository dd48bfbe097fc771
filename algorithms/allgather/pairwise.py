"""Allgather by pairwise exchange: in each round everyone swaps its block with another rank.

In round i = 1, ..., p - 1 rank r and r XOR i swap their blocks if p is a power of two; otherwise r sends
to r + i and receives from r - i (mod p).

**Cost**: p - 1 rounds of one block of n bytes: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks.

**Properties**: blocks come straight from their origin; every round is a perfect matching.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> cost(8, 100)
Cost(rounds=7, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield p - 1 steps."""
    me, p = group.ranks, group.size
    yield group.copy(block("send"), block("recv", me))
    for i in range(1, p):
        is_power_of_two = p & (p - 1) == 0
        to, source = (me ^ i, me ^ i) if is_power_of_two else ((me + i) % p, (me - i) % p)
        yield group.sendrecv(block("recv", me), to, block("recv", source), source)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("pairwise", "allgather", schedule=rounds, cost=cost)
