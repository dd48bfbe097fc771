"""Allgather in two levels, all at once in each: to the leaders, between them, from them.

A node is `node` consecutive ranks, led by its first one, to whom all others send their blocks. Every leader
sends its node's blocks to all other leaders, and in the end all blocks to every rank of its node.

**Cost**: with N nodes of c ranks: ``(2(c-1) + N-1)*alpha + (c-1 + (N-1)*c + (c-1)*p)*n*beta``.

**Requires**: nothing; any number of ranks. Parameter: `node` (ranks of a node).

**Properties**: the simplest form with two levels; leaders have much to send.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> cost(32, 800)
Cost(rounds=17, volume_bytes=204000, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allgather._nodes import collect_in_one_go, stretch
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, whole
from labkit.schedule.group import leaders, members
from labkit.schedule.phases import down
from labkit.schedule.trees import flat

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the gather in nodes, the exchange of leaders, the broadcast in nodes."""
    yield from collect_in_one_go(group, node)
    outside, inside = leaders(group, node), members(group, node)
    number, n, home = outside.number, outside.largest, group.ranks // node
    for i in range(1, n):
        yield outside.irecv(stretch(group, node, (number - i) % n), (number - i) % n)
    for i in range(1, n):
        yield outside.isend(stretch(group, node, home), (number + i) % n)
    yield outside.wait(where=n > 1)
    yield from down(inside, flat(inside.largest), lambda part: whole("recv"))


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    nodes, c = -(-ranks // node), min(node, ranks)
    blocks = c - 1 + (nodes - 1) * c + (c - 1) * ranks
    return Cost(2 * (c - 1) + nodes - 1, blocks * n_bytes)


ALGORITHM = Algorithm(
    "smp_simple",
    "allgather",
    schedule=rounds,
    cost=cost,
    parameters={"node": 8},
)
