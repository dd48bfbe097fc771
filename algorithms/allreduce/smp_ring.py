"""Allreduce in two levels: a ring between the leaders of nodes.

A node is `node` consecutive ranks, led by its first one. Operands go up a binomial tree inside every node;
a reduce-scatter and an allgather follow around the ring among the leaders; the result goes down the nodes'
trees.

**Cost**: with N nodes of c ranks ``2*(ceil(log2 c) + N-1)*alpha + 2*(ceil(log2 c) + (N-1)/N)*n*beta``.

**Requires**: a commutative operator; any number of ranks. Parameter: `node`.

**Properties**: between nodes only neighbors talk, and the message goes twice.

**Reference**: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting
hierarchy in parallel computer networks to optimize collective operation performance. IPDPS 2000.
doi:10.1109/IPDPS.2000.846009

>>> cost(64, 800)
Cost(rounds=20, volume_bytes=6200.0, reduced_bytes=3100.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allreduce._smp import cost_in_two_levels, in_two_levels
from labkit.algorithms.allreduce._team import around, around_cost
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step

__all__ = ["ALGORITHM", "cost", "rounds"]


def parts_of_message(ranks: int, node: int = 8) -> int:
    """Return the number of nodes."""
    return -(-ranks // node)


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the levels of the nodes, the leaders' rounds, the levels again."""
    return in_two_levels(group, node, around)


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the exact cost when the number of nodes divides the message."""
    return cost_in_two_levels(ranks, n_bytes, node, around_cost)


ALGORITHM = Algorithm(
    "smp_ring",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=parts_of_message,
    temporaries=("incoming",),
    parameters={"node": 8},
)
