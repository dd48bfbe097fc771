"""Bruck's allgather: everyone passes all it has to ever farther ranks, for any number of ranks.

Before the rounds with distance d = 1, k, k**2, ... rank r holds the blocks of ranks r, ..., r + d - 1 (mod
p). For v = 1 ... k - 1 it sends them to r - v*d and receives those of r + v*d, ..., r + (v+1)*d - 1; the
last rounds move only what is missing. Blocks are received where they belong, so the usual final rotation is
not needed.

**Cost**: with k = 2 ceil(log2 p) rounds, p - 1 blocks of n bytes, for every p:
``ceil(log2 p)*alpha + (p-1)*n*beta``; in general a message for each v*d < p.

**Requires**: nothing; any number of ranks. Parameter: `radix` (k).

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

__all__ = ["ALGORITHM", "cost", "rounds"]


def _hops(p: int, radix: int) -> Iterator[tuple[int, int]]:
    """Yield the distances v*d below p, and how many blocks go there."""
    distance = 1
    while distance < p:
        for hop in range(distance, min(radix * distance, p), distance):
            yield hop, min(distance, p - hop)
        distance *= radix


def rounds(group: Group, radix: int = 2) -> Iterator[Step]:
    """Yield one step for each distance."""
    me, p = group.ranks, group.size
    yield group.copy(block("send"), block("recv", me))
    for hop, moved in _hops(p, max(radix, 2)):
        yield group.sendrecv(
            blocks("recv", me, moved), (me - hop) % p, blocks("recv", me + hop, moved), (me + hop) % p
        )


def cost(ranks: int, n_bytes: float, radix: int = 2) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(sum(1 for _ in _hops(ranks, max(radix, 2))), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("bruck", "allgather", schedule=rounds, cost=cost, parameters={"radix": 2})
