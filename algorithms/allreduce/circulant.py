"""Allreduce over circulant graphs: few rounds and minimal volume for any number of ranks.

The message is cut into p blocks; rank r first works on all of them, then on the s that begin with its own,
for s = ceil(p/2), ceil(p/4), ..., 1. In a round from s to h = ceil(s/2) it sends those beyond, r + h ... r
+ s - 1, to rank r + h, and combines what comes from r - h. The same rounds backwards collect the blocks.

**Cost**: ``2*ceil(log2 p)*alpha + 2(p-1)/p*n*beta + (p-1)/p*n*gamma``, for every p.

**Requires**: a commutative operator; any number of ranks.

**Properties**: optimal in volume and in combinations, and in rounds for one that is; no power of two is
needed.

**Reference**: J. L. Träff: Optimal, non-pipelined reduce-scatter and allreduce algorithms. 2024.
doi:10.48550/arXiv.2410.14234

>>> cost(8, 800)
Cost(rounds=6, volume_bytes=1400.0, reduced_bytes=700.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, blocks, whole
from labkit.schedule.doubling import ceil_log2

__all__ = ["ALGORITHM", "cost", "rounds"]


def skips(p: int) -> Iterator[tuple[int, int]]:
    """Yield each round's number of blocks before and after: p, ceil(p/2), ..., 1."""
    span = p
    while span > 1:
        yield span, -(-span // 2)
        span = -(-span // 2)


def parts_of_message(ranks: int) -> int:
    """Return p: a block for each rank."""
    return ranks


def rounds(group: Group) -> Iterator[Step]:
    """Yield the reduce-scatter, then its rounds backwards."""
    me, p = group.ranks, group.size
    rounds_ = list(skips(p))
    yield group.copy(whole("send"), whole("recv"))
    for span, hop in rounds_:
        received, kept = blocks("incoming", me, span - hop), blocks("recv", me, span - hop)
        yield group.sendrecv(blocks("recv", me + hop, span - hop), (me + hop) % p, received, (me - hop) % p)
        yield group.combine(received, kept)
    for span, hop in reversed(rounds_):
        known, new = blocks("recv", me, span - hop), blocks("recv", me + hop, span - hop)
        yield group.sendrecv(known, (me - hop) % p, new, (me + hop) % p)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost when p divides the message."""
    volume = (ranks - 1) * n_bytes / ranks
    return Cost(2 * ceil_log2(ranks), 2 * volume, volume)


ALGORITHM = Algorithm(
    "circulant",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=parts_of_message,
    temporaries=("incoming",),
)
