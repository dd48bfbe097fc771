"""Allreduce in two levels: Rabenseifner's algorithm between the leaders of nodes.

A node is `node` consecutive ranks, led by its first one. Operands go up a binomial tree inside every node;
a reduce-scatter by halving and an allgather by doubling follow among the leaders; the result goes down the
nodes' trees.

**Cost**: with N = 2**k nodes of c ranks ``2*(ceil(log2 c) + k)*alpha + 2*(ceil(log2 c) + (N-1)/N)*n*beta``;
the fold if N is no power of two.

**Requires**: nothing; any number of ranks, any associative operator. Parameter: `node`.

**Properties**: operands in rank order; the network between nodes carries the message twice, not k times.

**Reference**: R. Rabenseifner: Optimization of collective reduction operations. ICCS 2004, LNCS 3036.
doi:10.1007/978-3-540-24685-5_1

>>> cost(64, 800)
Cost(rounds=12, volume_bytes=6200.0, reduced_bytes=3100.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allreduce._smp import cost_in_two_levels, in_two_levels
from labkit.algorithms.allreduce._team import halving, halving_cost
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.doubling import floor_power_of_two

__all__ = ["ALGORITHM", "cost", "rounds"]


def parts_of_message(ranks: int, node: int = 8) -> int:
    """Return the largest power of two in the number of nodes."""
    return floor_power_of_two(-(-ranks // node))


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the levels of the nodes, the leaders' rounds, the levels again."""
    return in_two_levels(group, node, halving)


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the exact cost when the number of parts divides the message."""
    return cost_in_two_levels(ranks, n_bytes, node, halving_cost)


ALGORITHM = Algorithm(
    "smp_rabenseifner",
    "allreduce",
    schedule=rounds,
    cost=cost,
    parts=parts_of_message,
    temporaries=("incoming",),
    parameters={"node": 8},
)
