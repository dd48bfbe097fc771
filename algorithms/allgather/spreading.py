"""Allgather in one go: everyone sends its block to all others.

Rank r posts its receives from r - 1, r - 2, ... and its sends to r + 1, r + 2, ... (mod p), and waits for
all of them.

**Cost**: p - 1 messages through every port: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks.

**Properties**: blocks come straight from their origin; all p*(p-1) messages are under way at once.

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
    """Yield all receives, all sends, one wait."""
    me, p = group.ranks, group.size
    yield group.copy(block("send"), block("recv", me))
    for i in range(1, p):
        yield group.irecv(block("recv", me - i), source=(me - i) % p)
    for i in range(1, p):
        yield group.isend(block("recv", me), to=(me + i) % p)
    yield group.wait()


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("spreading", "allgather", schedule=rounds, cost=cost)
