"""Inclusive prefix sums by recursive doubling: everyone passes its window to a rank twice as far on.

Before the round with distance d = 1, 2, 4, ... rank r holds the sum over its last d ranks (or all there
are). It sends it to r + d, and puts what comes from r - d in front of its own: the window doubles.

**Cost**: ceil(log2 p) rounds of n bytes, each combined, for every p:
``ceil(log2 p) * (alpha + n*beta + n*gamma)``.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: optimal in rounds; operands in rank order; every message carries n bytes.

**Reference**: W. D. Hillis, G. L. Steele: Data parallel algorithms. Communications of the ACM 29(12),
1986. doi:10.1145/7902.7903

>>> cost(5, 100)
Cost(rounds=3, volume_bytes=300, reduced_bytes=300)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import ceil_log2, doublings

__all__ = ["ALGORITHM", "cost", "rounds"]

RESULT, INCOMING = block("recv"), block("incoming")


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each distance 1, 2, 4, ..."""
    me, p = group.ranks, group.size
    yield group.copy(block("send"), RESULT)
    for distance in doublings(p):
        has_left, has_right = me >= distance, me + distance < p
        yield (
            group.isend(RESULT, to=me + distance, where=has_right)
            + group.irecv(INCOMING, source=me - distance, where=has_left)
            + group.wait(has_left | has_right)
            + group.combine(INCOMING, RESULT, source_first=True, where=has_left)
        )


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: the last rank receives and combines in every round."""
    levels = ceil_log2(ranks)
    return Cost(levels, levels * n_bytes, levels * n_bytes)


ALGORITHM = Algorithm("recursive_doubling", "scan", schedule=rounds, cost=cost, temporaries=("incoming",))
