"""Broadcast in two levels, both of them binomial trees.

A node is `node` consecutive ranks; its leader is its first rank, or the root. The leaders' tree and the
nodes' trees are one tree: a rank serves the leaders below it before the ranks of its own node.

**Cost**: with m segments ``(d + (m-1)*c) * (alpha + n/m*beta)``: d messages until the last rank has the first
segment, the longest way through both levels; c is the number of the root's children, inside its node and
outside.

**Requires**: nothing; any number of ranks, any root. Parameters: `node` (ranks of a node), `segments` (m).

**Properties**: between nodes the message goes once for each node.

**Reference**: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting
hierarchy in parallel computer networks to optimize collective operation performance. IPDPS 2000.
doi:10.1109/IPDPS.2000.846009

>>> cost(32, 800)
Cost(rounds=5, volume_bytes=4000.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.bcast._tree import rounds_below
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.trees import Tree, knomial, two_level

__all__ = ["ALGORITHM", "cost", "rounds"]


def _tree(size: int) -> Tree:
    """Return the tree of a node, and that of the leaders."""
    return knomial(size, 2)


def rounds(group: Group, node: int = 8, segments: int = 1) -> Iterator[Step]:
    """Yield one step for each segment."""
    return rounds_below(
        group, two_level(group.size, node, _tree, _tree, group.root), segments, is_posted=False
    )


def cost(ranks: int, n_bytes: float, node: int = 8, segments: int = 1) -> Cost:
    """Return the exact cost when the number of segments divides the message."""
    turns = two_level(ranks, node, _tree, _tree).down(segments)
    return Cost(turns, turns * n_bytes / segments)


def number_of_segments(ranks: int, segments: int = 1) -> int:
    """Return the number of segments, whatever the number of ranks."""
    return segments


ALGORITHM = Algorithm(
    "smp_binomial",
    "bcast",
    schedule=rounds,
    cost=cost,
    parts=number_of_segments,
    parameters={"node": 8, "segments": 1},
)
