"""Barrier by dissemination: everyone tells ever farther ranks, round after round.

For the distances d = 1, k, k**2, ... rank r sends empty messages to r + v*d, v = 1 ... k - 1, and waits for
those from r - v*d (mod p). After the round a rank has heard, directly or through others, from the k*d - 1
ranks before it.

**Cost**: with k = 2 ceil(log2 p) rounds for every p, no volume: ``ceil(log2 p) * alpha``; in general a
message for each v*d < p.

**Requires**: nothing; any number of ranks. Parameter: `radix` (k).

**Properties**: with k = 2 optimal in rounds, no root, every rank does the same work; a larger k is better
where a rank's start-ups overlap.

**Reference**: D. Hensgen, R. Finkel, U. Manber: Two algorithms for barrier synchronization.
International Journal of Parallel Programming 17(1), 1988. doi:10.1007/BF01379320

>>> cost(5, 0)
Cost(rounds=3, volume_bytes=0.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step

__all__ = ["ALGORITHM", "cost", "rounds"]


def _turns(p: int, radix: int) -> Iterator[range]:
    """Yield the hops of each round: the multiples of its distance below p."""
    distance = 1
    while distance < p:
        yield range(distance, min(radix * distance, p), distance)
        distance *= radix


def rounds(group: Group, radix: int = 2) -> Iterator[Step]:
    """Yield one step for each distance."""
    me, p = group.ranks, group.size
    for hops in _turns(p, max(radix, 2)):
        for hop in hops:
            yield group.isend(None, (me + hop) % p) + group.irecv(None, (me - hop) % p)
        yield group.wait()


def cost(ranks: int, n_bytes: float, radix: int = 2) -> Cost:
    """Return the exact cost: a message for each hop."""
    return Cost(sum(len(hops) for hops in _turns(ranks, max(radix, 2))))


ALGORITHM = Algorithm("dissemination", "barrier", schedule=rounds, cost=cost, parameters={"radix": 2})
