"""Broadcast along a Bine tree: a binomial tree whose messages go less far.

Ranks are numbered from the root on and labeled by their digits in base -2 (`bine_labels`); in each round,
every holder sends to the label that differs in one bit, the highest first. Neighbors in the tree are
1, 1, 3, 5, 11, ... ranks apart, to both sides, instead of 1, 2, 4, 8, 16, ... If p is no power of two, the
ranks beyond the largest one in it are served at the end.

**Cost**: with q = 2**k <= p < 2q: k rounds of n bytes, one more if p > q:
``ceil(log2 p) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks, any root.

**Properties**: as many rounds as the binomial tree; the messages go about 30 % less far in all, so fewer
links are crossed where near ranks are near in the network.

**Reference**: D. De Sensi et al.: Bine trees: enhancing collective operations by optimizing communication
locality. SC 2025. doi:10.48550/arXiv.2508.17311

>>> cost(5, 100)
Cost(rounds=3, volume_bytes=300.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block, trees
from labkit.schedule.doubling import ceil_log2
from labkit.schedule.group import everyone
from labkit.schedule.phases import down

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the one step that everyone does."""
    return down(everyone(group, group.root), trees.bine(group.size), lambda part: block("data"))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: ceil(log2 p) messages one after another."""
    levels = ceil_log2(ranks)
    return Cost(levels, 1.0 * levels * n_bytes)


ALGORITHM = Algorithm("bine", "bcast", schedule=rounds, cost=cost)
