"""Alltoall in one go: everyone posts all its receives and sends, then waits.

Rank r posts its receives from r + 1, r + 2, ... and its sends to r - 1, r - 2, ... (mod p), so that not
all ranks start with the same target.

**Cost**: p - 1 messages through every port: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks.

**Properties**: nobody waits for a round to end, but all p*(p-1) messages are under way at once and share
the network's links.

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
    """Yield all receives, all sends, one wait."""
    me, p = group.ranks, group.size
    yield group.copy(block("send", me), block("recv", me))
    for i in range(1, p):
        yield group.irecv(block("recv", (me + i) % p), source=(me + i) % p)
    for i in range(1, p):
        yield group.isend(block("send", (me - i) % p), to=(me - i) % p)
    yield group.wait()


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("linear", "alltoall", schedule=rounds, cost=cost)
