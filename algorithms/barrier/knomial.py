"""Barrier up and down a k-nomial tree.

Every rank waits for its children in the tree and reports to its parent; from rank 0 the release goes the
same ways down. A rank has up to k - 1 children at each level.

**Cost**: ``2*(k-1)*log_k(p) * alpha`` for powers of k, less where subtrees are missing.

**Requires**: nothing; any number of ranks. Parameter: `radix` (k).

**Properties**: flatter than the binomial tree: better where a rank's start-ups overlap.

**Reference**: J. M. Mellor-Crummey, M. L. Scott: Algorithms for scalable synchronization on shared-memory
multiprocessors. ACM TOCS 9(1), 1991. doi:10.1145/103727.103729

>>> cost(16, 0)
Cost(rounds=12, volume_bytes=0.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, trees
from labkit.schedule.group import everyone
from labkit.schedule.phases import down, up

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, radix: int = 4) -> Iterator[Step]:
    """Yield the way up, then the way down."""
    team, tree = everyone(group), trees.knomial(group.size, radix)
    yield from up(team, tree, lambda part: None)
    yield from down(team, tree, lambda part: None)


def cost(ranks: int, n_bytes: float, radix: int = 4) -> Cost:
    """Return the exact cost: the longest way up and down."""
    tree = trees.knomial(ranks, radix)
    return Cost(tree.up() + tree.down())


ALGORITHM = Algorithm("knomial", "barrier", schedule=rounds, cost=cost, parameters={"radix": 4})
