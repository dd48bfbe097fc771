"""Bruck's allgather: everyone passes all it has to a rank twice as far away, for any number of ranks.

Before the round with distance d = 1, 2, 4, ... rank r holds the blocks of ranks r, ..., r + d - 1 (mod p).
It sends them to r - d and receives those of r + d, ..., r + 2d - 1; the last round moves only what is
missing. Blocks are received where they belong, so the usual final rotation is not needed.

**Cost**: ceil(log2 p) rounds, p - 1 blocks of n bytes, for every p:
``ceil(log2 p)*alpha + (p-1)*n*beta``.

**Requires**: nothing; any number of ranks.

**Properties**: minimal rounds and volume for every p; messages may wrap around the end of the buffer.

**Reference**: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all
communications in multiport message-passing systems. IEEE TPDS 8(11), 1997. doi:10.1109/71.642949

>>> cost(5, 100)
Cost(rounds=3, volume_bytes=400, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block, blocks
from labkit.schedule.powers import ceil_log2, doublings

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each distance 1, 2, 4, ..."""
    me, p = group.ranks, group.size
    yield group.copy(block("send"), block("recv", me))
    for distance in doublings(p):
        moved = min(distance, p - distance)
        yield group.sendrecv(
            blocks("recv", me, moved),
            (me - distance) % p,
            blocks("recv", me + distance, moved),
            (me + distance) % p,
        )


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ceil_log2(ranks), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("bruck", "allgather", schedule=rounds, cost=cost)
