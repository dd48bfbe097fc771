"""Alltoall with a window: a new pair of messages is posted for each one that is done.

Rank r posts receives from r + i and sends to r - i (mod p) for i = 1 ... `outstanding`; then, whenever the
oldest pair is done, the next one.

**Cost**: p - 1 messages through every port: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks. Parameter: `outstanding`.

**Properties**: never more than `outstanding` sends and receives of a rank under way, and no batch that
waits for its slowest message. (Open MPI waits for any pair; here it is the oldest, so that every run is the
same.)

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 100)
Cost(rounds=7, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, outstanding: int = 3) -> Iterator[Step]:
    """Yield the first window, then one wait and one pair at a time."""
    me, p = group.ranks, group.size
    yield group.copy(block("send", me), block("recv", me))
    for i in range(1, p):
        label = i % outstanding
        if i > outstanding:
            yield group.wait(label=label)
        yield group.irecv(block("recv", (me + i) % p), (me + i) % p, label=label) + group.isend(
            block("send", (me - i) % p), (me - i) % p, label=label
        )
    yield group.wait(p > 1)


def cost(ranks: int, n_bytes: float, outstanding: int = 3) -> Cost:
    """Return the exact cost for blocks of `n_bytes`, however many are outstanding."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("linear_sync", "alltoall", schedule=rounds, cost=cost, parameters={"outstanding": 3})
