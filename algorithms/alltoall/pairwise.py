"""Alltoall by pairwise exchange: in each round everyone sends to one rank and receives from one.

In round i = 1, ..., p - 1 rank r exchanges with r XOR i if p is a power of two; otherwise it sends to
r + i and receives from r - i (mod p). Every rank's port is busy, none is crowded.

**Cost**: p - 1 rounds of one block of n bytes: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks.

**Properties**: minimal volume, each block travels once; no work buffer; works as it is for blocks of
different sizes. For long blocks.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield p - 1 steps, each a permutation of the ranks."""
    me, p = group.ranks, group.size
    is_power_of_two = p & (p - 1) == 0
    yield group.copy(block("send", me), block("recv", me))
    for i in range(1, p):
        to, source = (me ^ i, me ^ i) if is_power_of_two else ((me + i) % p, (me - i) % p)
        yield group.sendrecv(block("send", to), to, block("recv", source), source)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("pairwise", "alltoall", schedule=rounds, cost=cost)
