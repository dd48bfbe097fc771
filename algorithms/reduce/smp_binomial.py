"""Reduction in two levels, both of them binomial trees.

A node is `node` consecutive ranks; its leader is its first rank, or the root. Sums go up a binomial tree
inside every node, then up the leaders' tree to the root. If the operator does not commute, rank 0 is at the
top, and sends the result to the root.

**Cost**: ``(ceil(log2 c) + ceil(log2 N)) * (alpha + n*beta + n*gamma)`` for N nodes of c ranks; with fewer
ranks in the last node the longest way counts.

**Requires**: nothing; any number of ranks, any root, any associative operator. Parameter: `node`.

**Properties**: between nodes there is one message a node; operands in rank order.

**Reference**: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting
hierarchy in parallel computer networks to optimize collective operation performance. IPDPS 2000.
doi:10.1109/IPDPS.2000.846009

>>> cost(32, 100)
Cost(rounds=5, volume_bytes=500.0, reduced_bytes=500.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.reduce._tree import TEMPORARIES, cost_of, rounds_below
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.trees import Tree, knomial, two_level

__all__ = ["ALGORITHM", "cost", "rounds"]


def _tree(size: int) -> Tree:
    """Return the tree of a node, and that of the leaders."""
    return knomial(size, 2)


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the message's way up."""
    top = group.root if group.commutative else 0
    return rounds_below(group, two_level(group.size, node, _tree, _tree, top))


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the cost: as many messages and combinations as on the longest way."""
    return cost_of(two_level(ranks, node, _tree, _tree), n_bytes)


ALGORITHM = Algorithm(
    "smp_binomial",
    "reduce",
    schedule=rounds,
    cost=cost,
    temporaries=TEMPORARIES,
    parameters={"node": 8},
)
