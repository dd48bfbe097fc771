"""Allgather by sparbit: Bruck's rounds backwards, blocks received where they belong.

The distance halves: d = q, q/2, ..., 1, q the largest power of two below p. In each round rank r sends all
it has, the blocks r, r - 2d, r - 4d, ..., to r + d, and receives from r - d the blocks between them. A round
in which the last one would come a second time leaves it out.

**Cost**: ceil(log2 p) rounds, p - 1 blocks of n bytes, for every p: ``ceil(log2 p)*alpha + (p-1)*n*beta``.

**Requires**: nothing; any number of ranks.

**Properties**: minimal rounds and volume; the long messages, at the end, go to near ranks, which is Bruck's
costs with less distance; blocks of a message lie apart.

**Reference**: W. J. S. Loch, G. P. Koslovski: Sparbit: a new logarithmic-cost and data locality-aware MPI
allgather algorithm. SBAC-PAD 2021. doi:10.48550/arXiv.2109.08751

>>> cost(5, 100)
Cost(rounds=3, volume_bytes=400, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block, blocks
from labkit.schedule.doubling import ceil_log2, doublings

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each distance."""
    me, p = group.ranks, group.size
    yield group.copy(block("send"), block("recv", me))
    for distance, count in _turns(p):
        step = 2 * distance
        rule = ((count - 1) * step + 1, 1, step)
        first = me - (count - 1) * step
        yield group.sendrecv(
            blocks("recv", first % p, *rule),
            (me + distance) % p,
            blocks("recv", (first - distance) % p, *rule),
            (me - distance) % p,
        )


def _turns(p: int) -> list[tuple[int, int]]:
    """Return distance and number of blocks of each round.

    Known are the multiples of 2d below p, ceil(p / 2d) of them; wanted are those of d, ceil(p / d).
    """
    return [(d, -(-p // d) - -(-p // (2 * d))) for d in reversed(doublings(p))]


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ceil_log2(ranks), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("sparbit", "allgather", schedule=rounds, cost=cost)
