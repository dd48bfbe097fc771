"""Allreduce as reduce-scatter by recursive halving and allgather around a ring.

In the rounds with distance d = p/2, p/4, ..., 1 ranks r and r XOR d give each other half of the blocks that
both work on, and combine the other half: block r is complete at rank r. Then the blocks travel around a ring.
If p is no power of two, the circulant rounds take the place of the halving ones.

**Cost**: ``(ceil(log2 p) + p - 1)*alpha + 2(p-1)/p*n*beta + (p-1)/p*n*gamma``.

**Requires**: a commutative operator; any number of ranks.

**Properties**: minimal volume; the second phase uses links between neighbors only.

**Reference**: R. Rabenseifner: Optimization of collective reduction operations. ICCS 2004, LNCS 3036.
doi:10.1007/978-3-540-24685-5_1

>>> cost(8, 800)
Cost(rounds=10, volume_bytes=1400.0, reduced_bytes=700.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allreduce.circulant import parts_of_message, skips
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, block, blocks, whole
from labkit.schedule.doubling import ceil_log2, doublings
from labkit.schedule.group import everyone
from labkit.schedule.phases import pass_around

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the halving rounds, then p - 1 steps around the ring."""
    me, p = group.ranks, group.size
    yield group.copy(whole("send"), whole("recv"))
    if p & (p - 1) == 0:
        for distance in reversed(doublings(p)):
            peer = me ^ distance
            mine, theirs = me // distance * distance, peer // distance * distance
            received = blocks("incoming", mine, distance)
            yield group.sendrecv(blocks("recv", theirs, distance), peer, received, peer)
            yield group.combine(received, blocks("recv", mine, distance))
    else:
        for span, hop in skips(p):
            received = blocks("incoming", me, span - hop)
            yield group.sendrecv(
                blocks("recv", me + hop, span - hop), (me + hop) % p, received, (me - hop) % p
            )
            yield group.combine(received, blocks("recv", me, span - hop))
    yield from pass_around(everyone(group), lambda number: block("recv", number))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost when p divides the message."""
    volume = (ranks - 1) * n_bytes / ranks
    return Cost(ceil_log2(ranks) + ranks - 1, 2 * volume, volume)


ALGORITHM = Algorithm(
    "halving_ring",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=parts_of_message,
    temporaries=("incoming",),
)
