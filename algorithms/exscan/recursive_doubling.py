"""Exclusive prefix sums by recursive doubling: as the inclusive ones, with a second sum beside.

Every rank keeps its window with its own operand, to pass on, and the same without it, the result. In the
round with distance d = 1, 2, 4, ... the window goes to r + d, and what comes from r - d is put in front
of both. Rank 0 gets nothing: its result is undefined.

**Cost**: k = ceil(log2 p) rounds of n bytes for every p. The slowest rank combines the result in every
round but the first, and the window in every round but the last, 2(k-1) times n bytes; once less while no
rank has to do both in full (p <= 3/4 * 2**k).

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: optimal in rounds; operands in rank order; the window is combined before the result, so
that the next message leaves as early as possible.

**Reference**: P. Sanders, J. L. Träff: Parallel prefix (scan) algorithms for MPI. EuroPVM/MPI 2006, LNCS
4192. doi:10.1007/11846802_15

>>> cost(5, 100)
Cost(rounds=3, volume_bytes=300, reduced_bytes=300)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import ceil_log2, doublings

__all__ = ["ALGORITHM", "cost", "rounds"]

RESULT, INCOMING, WINDOW = block("recv"), block("incoming"), block("window")


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each distance 1, 2, 4, ..."""
    me, p = group.ranks, group.size
    yield group.copy(block("send"), WINDOW, where=me + 1 < p)
    for distance in doublings(p):
        has_left, has_right = me >= distance, me + distance < p
        is_needed_again = has_left & (me + 2 * distance < p)
        yield (
            group.isend(WINDOW, to=me + distance, where=has_right)
            + group.irecv(INCOMING, source=me - distance, where=has_left)
            + group.wait(has_left | has_right)
            + group.combine(INCOMING, WINDOW, source_first=True, where=is_needed_again)
        )
        if distance == 1:
            yield group.copy(INCOMING, RESULT, where=has_left)
        else:
            yield group.combine(INCOMING, RESULT, source_first=True, where=has_left)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost."""
    levels = ceil_log2(ranks)
    combined = 2 * (levels - 1) - int(4 * ranks <= 3 << levels) if levels > 1 else 0
    return Cost(levels, levels * n_bytes, combined * n_bytes)


ALGORITHM = Algorithm(
    "recursive_doubling", "exscan", schedule=rounds, cost=cost, temporaries=("incoming", "window")
)
