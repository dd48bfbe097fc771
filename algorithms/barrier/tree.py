"""Barrier up and down a binomial tree.

Every rank waits for its children in the tree and reports to its parent; from rank 0 the release goes the
same ways down.

**Cost**: ``2*ceil(log2 p) * alpha``.

**Requires**: nothing; any number of ranks.

**Properties**: fewest messages of all (2p - 2), but twice the rounds of dissemination.

**Reference**: J. M. Mellor-Crummey, M. L. Scott: Algorithms for scalable synchronization on shared-memory
multiprocessors. ACM TOCS 9(1), 1991. doi:10.1145/103727.103729

>>> cost(8, 0)
Cost(rounds=6, volume_bytes=0.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.doubling import ceil_log2
from labkit.schedule.group import everyone
from labkit.schedule.phases import down, up
from labkit.schedule.trees import knomial

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the way up, then the way down."""
    team, tree = everyone(group), knomial(group.size, 2)
    yield from up(team, tree, lambda part: None)
    yield from down(team, tree, lambda part: None, is_posted=False)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: the levels, twice."""
    return Cost(2 * ceil_log2(ranks))


ALGORITHM = Algorithm("tree", "barrier", schedule=rounds, cost=cost)
