"""Allgather around a ring: every block travels from neighbor to neighbor until all have it.

In each of p - 1 rounds every rank passes the block that came last to its right neighbor.

**Cost**: p - 1 rounds of one block of n bytes: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks.

**Properties**: minimal volume; only neighbors talk; no work buffer; works as it is for blocks of
different sizes.

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
    """Yield p - 1 steps: pass on the block that came last."""
    me, p = group.ranks, group.size
    left, right = (me - 1) % p, (me + 1) % p
    yield group.copy(block("send"), block("recv", me))
    for i in range(p - 1):
        yield group.sendrecv(block("recv", me - i), right, block("recv", me - i - 1), left)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("ring", "allgather", schedule=rounds, cost=cost)
