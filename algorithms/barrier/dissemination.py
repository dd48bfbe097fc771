"""Barrier by dissemination: everyone tells a rank twice as far away, round after round.

In round k rank r sends an empty message to r + 2**k and waits for one from r - 2**k (mod p). After round
k a rank has heard, directly or through others, from the 2**(k+1) - 1 ranks before it; after ceil(log2 p)
rounds from all.

**Cost**: ceil(log2 p) rounds for every p, no volume: ``ceil(log2 p) * alpha``.

**Requires**: nothing; any number of ranks.

**Properties**: optimal in rounds, no root, every rank does the same work.

**Reference**: D. Hensgen, R. Finkel, U. Manber: Two algorithms for barrier synchronization.
International Journal of Parallel Programming 17(1), 1988. doi:10.1007/BF01379320

>>> cost(5, 0)
Cost(rounds=3, volume_bytes=0.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.powers import ceil_log2, doublings

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each distance 1, 2, 4, ..."""
    me, p = group.ranks, group.size
    for distance in doublings(p):
        yield group.sendrecv(None, (me + distance) % p, None, (me - distance) % p)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: ceil(log2 p) rounds."""
    return Cost(ceil_log2(ranks))


ALGORITHM = Algorithm("dissemination", "barrier", schedule=rounds, cost=cost)
