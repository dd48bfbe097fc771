"""Allgather in two levels: binomial trees inside nodes, a ring between their leaders.

A node is `node` consecutive ranks, led by its first one. Its blocks go up a binomial tree to the leader; the
leaders pass the nodes' blocks around a ring; every leader broadcasts all of them down its node's tree.

**Cost**: with N nodes of c ranks and L = ceil(log2 c): ``(2L + N-1)*alpha + (c-1 + (N-1)*c + L*p)*n*beta``.

**Requires**: nothing; any number of ranks. Parameter: `node` (ranks of a node).

**Properties**: between nodes every block goes once; inside, everything goes through the leader.

**Reference**: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting
hierarchy in parallel computer networks to optimize collective operation performance. IPDPS 2000.
doi:10.1109/IPDPS.2000.846009

>>> cost(32, 800)
Cost(rounds=9, volume_bytes=101600, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allgather._nodes import collect, stretch
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, whole
from labkit.schedule.doubling import ceil_log2
from labkit.schedule.group import leaders, members
from labkit.schedule.phases import down, pass_around
from labkit.schedule.trees import knomial

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the gather in nodes, the ring of leaders, the broadcast in nodes."""
    yield from collect(group, node)
    yield from pass_around(leaders(group, node), lambda number: stretch(group, node, number))
    inside = members(group, node)
    yield from down(inside, knomial(inside.largest, 2), lambda part: whole("recv"), is_posted=False)


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    nodes, c = -(-ranks // node), min(node, ranks)
    levels = ceil_log2(c)
    blocks = c - 1 + (nodes - 1) * c + levels * ranks
    return Cost(2 * levels + nodes - 1, blocks * n_bytes)


ALGORITHM = Algorithm(
    "smp_binomial",
    "allgather",
    schedule=rounds,
    cost=cost,
    parameters={"node": 8},
)
