"""Allgather in two levels, overlapped: leaders hand out what they pass on around their ring.

A node is c consecutive ranks, c the largest divisor of p not above `node`, led by its first one, to whom
all others send their blocks. The leaders pass the nodes' blocks around a ring; while the next ones come,
each sends the last ones to every rank of its node.

**Cost**: with N = p/c nodes: ``(c-1 + (N-1)*c + c-1)*alpha + (c-1 + ((N-1)*c + c-1)*c)*n*beta``.

**Requires**: nothing; any number of ranks. Parameter: `node` (ranks of a node).

**Properties**: the ranks of a node get all blocks while the ring goes on; the leaders' ports are always busy.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> cost(32, 800)
Cost(rounds=38, volume_bytes=204000, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allgather._nodes import collect_in_one_go, stretch
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.powers import largest_divisor
from labkit.schedule.team import leaders, members

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the gather in nodes, then a step for each node's blocks."""
    c = largest_divisor(group.size, node)
    yield from collect_in_one_go(group, c)
    outside, inside = leaders(group, c), members(group, c)
    home, n = group.ranks // c, outside.largest
    is_leader = inside.number == 0
    for i in range(n):
        known, new = stretch(group, c, (home - i) % n), stretch(group, c, (home - i - 1) % n)
        if i + 1 < n:
            yield outside.isend(known, (home + 1) % n) + outside.irecv(new, (home - 1) % n)
        for number in range(1, c):
            yield inside.isend(known, number, where=is_leader)
        yield inside.recv(known, 0, where=~is_leader)
        yield inside.wait(where=is_leader & (i + 1 < n or c > 1))


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    c = largest_divisor(ranks, node)
    messages = (ranks // c - 1) * c + c - 1
    return Cost(c - 1 + messages, (c - 1 + messages * c) * n_bytes)


ALGORITHM = Algorithm(
    "smp_ring",
    "allgather",
    schedule=rounds,
    cost=cost,
    parameters={"node": 8},
)
