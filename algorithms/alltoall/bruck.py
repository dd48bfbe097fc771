"""Bruck's alltoall: few rounds for short blocks, which travel in several hops.

Number a rank's blocks by how far they must go: block j is for rank r + j (mod p). For each digit of j in
base k (place value d = 1, k, k**2, ...) and each value v = 1 ... k - 1 every rank sends all its blocks with
that digit to r + v*d, which takes them over: after the last round block j has gone j ranks. Two local
reorderings, before and after, bring blocks from and to their places.

**Cost**: with k = 2 ceil(log2 p) rounds, and the round with distance d moves the blocks j < p with bit d set:
``ceil(log2 p)*alpha + (sum over j < p of the set bits of j)*n*beta``. In general a round for each v*d < p,
and a block for each digit that is not zero: about ``(k-1)*log_k(p)`` rounds of p/k blocks.

**Requires**: nothing; any number of ranks; equal block sizes. Parameter: `radix` (k).

**Properties**: minimal rounds with k = 2, log2(p)/2 times the minimal volume: for short blocks; a work
buffer of p blocks. A larger k moves less in more rounds; k = p is the exchange by shifts.

**Reference**: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all
communications in multiport message-passing systems. IEEE TPDS 8(11), 1997. doi:10.1109/71.642949

>>> cost(5, 100)
Cost(rounds=3, volume_bytes=500, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, blocks

__all__ = ["ALGORITHM", "cost", "rounds"]


def _turns(p: int, radix: int) -> Iterator[tuple[int, int]]:
    """Yield the place values of the digits of numbers below p, with each value of the digit."""
    distance = 1
    while distance < p:
        for value in range(1, radix):
            if value * distance < p:
                yield distance, value
        distance *= radix


def rounds(group: Group, radix: int = 2) -> Iterator[Step]:
    """Yield rotation, one step for each digit and value, inverse rotation."""
    me, p = group.ranks, group.size
    yield group.copy(blocks("send", me, p), blocks("moving", 0, p))
    for distance, value in _turns(p, max(radix, 2)):
        # blocks j with this digit: runs of `distance` blocks every radix * distance
        hop = value * distance
        chosen = (hop, p - hop, distance, max(radix, 2) * distance)
        yield group.sendrecv(
            blocks("moving", *chosen), (me + hop) % p, blocks("recv", *chosen), (me - hop) % p
        ) + group.copy(blocks("recv", *chosen), blocks("moving", *chosen))
    # block j has come from rank me - j: the targets run backwards, that is with stride p - 1
    yield group.copy(blocks("moving", 0, p), blocks("recv", me, *_backwards(p)))


def _backwards(p: int) -> tuple[int, int, int]:
    """Return length, run and stride of all p blocks in falling order."""
    return (p - 1) * (p - 1) + 1, 1, max(p - 1, 1)


def cost(ranks: int, n_bytes: float, radix: int = 2) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    turns = list(_turns(ranks, max(radix, 2)))
    moved = sum(j // d % max(radix, 2) == v for d, v in turns for j in range(ranks))
    return Cost(len(turns), moved * n_bytes)


ALGORITHM = Algorithm(
    "bruck", "alltoall", schedule=rounds, cost=cost, temporaries=("moving",), parameters={"radix": 2}
)
