"""Bruck's alltoall: few rounds for short blocks, which travel in several hops.

Number a rank's blocks by how far they must go: block j is for rank r + j (mod p). In the round with
distance d = 2**k every rank sends all its blocks whose number has bit k set to r + d, which takes them
over: after the last round block j has gone j ranks, the sum of its bits. Two local reorderings, before and
after, bring blocks from and to their places.

**Cost**: ceil(log2 p) rounds; the round with distance d moves the blocks j < p with bit d set, (p/2) of
them if p is a power of two: ``ceil(log2 p)*alpha + (sum over j < p of the set bits of j)*n*beta``.

**Requires**: nothing; any number of ranks; equal block sizes.

**Properties**: minimal rounds, log2(p)/2 times the minimal volume: for short blocks; a work buffer of p
blocks.

**Reference**: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all
communications in multiport message-passing systems. IEEE TPDS 8(11), 1997. doi:10.1109/71.642949

>>> cost(5, 100)
Cost(rounds=3, volume_bytes=500, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, blocks
from labkit.schedule.powers import ceil_log2, doublings

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield rotation, one step for each distance, inverse rotation."""
    me, p = group.ranks, group.size
    yield group.copy(blocks("send", me, p), blocks("moving", 0, p))
    for distance in doublings(p):
        # blocks j with bit `distance`: runs of `distance` blocks every 2 * distance
        chosen = (distance, p - distance, distance, 2 * distance)
        yield group.sendrecv(
            blocks("moving", *chosen), (me + distance) % p, blocks("recv", *chosen), (me - distance) % p
        ) + group.copy(blocks("recv", *chosen), blocks("moving", *chosen))
    # block j has come from rank me - j: the targets run backwards, that is with stride p - 1
    yield group.copy(blocks("moving", 0, p), blocks("recv", me, *_backwards(p)))


def _backwards(p: int) -> tuple[int, int, int]:
    """Return length, run and stride of all p blocks in falling order."""
    return (p - 1) * (p - 1) + 1, 1, max(p - 1, 1)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ceil_log2(ranks), sum(j.bit_count() for j in range(ranks)) * n_bytes)


ALGORITHM = Algorithm("bruck", "alltoall", schedule=rounds, cost=cost, temporaries=("moving",))
