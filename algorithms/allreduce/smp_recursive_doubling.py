"""Allreduce in two levels: recursive doubling between the leaders of nodes.

A node is `node` consecutive ranks, led by its first one. Operands go up a binomial tree inside every node;
recursive doubling goes on among the leaders; the result goes down the nodes' trees.

**Cost**: with N = 2**k nodes of c ranks ``(2*ceil(log2 c) + k) * (alpha + n*beta)``, and ceil(log2 c) + k
combinations; the fold of recursive doubling if N is no power of two.

**Requires**: nothing; any number of ranks, any associative operator. Parameter: `node`.

**Properties**: operands in rank order; for short messages.

**Reference**: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting
hierarchy in parallel computer networks to optimize collective operation performance. IPDPS 2000.
doi:10.1109/IPDPS.2000.846009

>>> cost(64, 800)
Cost(rounds=9, volume_bytes=7200, reduced_bytes=4800)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allreduce._smp import cost_in_two_levels, in_two_levels
from labkit.algorithms.allreduce._team import doubling, doubling_cost
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the levels of the nodes, the leaders' rounds, the levels again."""
    return in_two_levels(group, node, doubling)


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the exact cost."""
    return cost_in_two_levels(ranks, n_bytes, node, doubling_cost)


ALGORITHM = Algorithm(
    "smp_recursive_doubling",
    "allreduce",
    schedule=rounds,
    cost=cost,
    temporaries=("incoming",),
    parameters={"node": 8},
)
