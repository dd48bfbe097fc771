"""Allgather around a ring, all receives posted before: a block is passed on as soon as it is there.

Rank r posts the receives of all blocks from its left neighbor at once, in the order in which they will
come. It sends its own block to the right, and then each block when it has arrived, without waiting for its
own sends.

**Cost**: p - 1 rounds of one block of n bytes: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks.

**Properties**: minimal volume between neighbors; no message waits for its receive, and a slow send does not
keep the next block from being received.

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
    """Yield all receives, then a send and a wait for each block."""
    me, p = group.ranks, group.size
    yield group.copy(block("send"), block("recv", me))
    for i in range(1, p):
        yield group.irecv(block("recv", me - i), source=(me - 1) % p, label=i)
    for i in range(p - 1):
        yield group.isend(block("recv", me - i), to=(me + 1) % p)
        yield group.wait(label=i + 1)
    yield group.wait(p > 1)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("ring_nonblocking", "allgather", schedule=rounds, cost=cost)
