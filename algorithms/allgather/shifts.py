"""Allgather by shifts: in each round everyone sends its own block to another rank.

In round i = 1, ..., p - 1 rank r sends its block to r + i and receives that of r - i (mod p).

**Cost**: p - 1 rounds of one block of n bytes: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks.

**Properties**: blocks come straight from their origin, one at a time; messages go ever farther, unlike
those of the ring.

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
        yield group.sendrecv(block("recv", me), (me + i) % p, block("recv", me - i), (me - i) % p)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("shifts", "allgather", schedule=rounds, cost=cost)
