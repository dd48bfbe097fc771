"""Allgather around rings that connect the nodes, one for each place in a node.

A node is c consecutive ranks, c the largest divisor of p not above `node`. Rank l of every node passes
blocks on to rank l of the next one, around p/c nodes, and sends each block that it has to all others of its
node.

**Cost**: p - 1 messages of one block of n bytes through every port: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks. Parameter: `node` (ranks of a node).

**Properties**: minimal volume; each block goes from node to node once, on the lane of its place.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> cost(32, 800)
Cost(rounds=31, volume_bytes=24800, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import largest_divisor

__all__ = ["ALGORITHM", "cost", "rounds"]

#: of what comes from the node before, which alone is waited for before the next turn
_NEXT = 1


def rounds(group: Group, node: int = 4) -> Iterator[Step]:
    """Yield a step for each node."""
    me, p = group.ranks, group.size
    c = largest_divisor(p, node)
    n, number, home = p // c, me % c, me // c
    yield group.copy(block("send"), block("recv", me))
    for i in range(n):
        known, new = (home - i) % n * c, (home - i - 1) % n * c
        if i + 1 < n:
            yield group.irecv(block("recv", new + number), (me - c) % p, label=_NEXT)
            yield group.isend(block("recv", known + number), (me + c) % p)
        for hop in range(1, c):
            to, source = (number + hop) % c, (number - hop) % c
            yield group.irecv(block("recv", known + source), home * c + source)
            yield group.isend(block("recv", known + number), home * c + to)
        if i + 1 < n:
            yield group.wait(label=_NEXT)
    yield group.wait(p > 1)


def cost(ranks: int, n_bytes: float, node: int = 4) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "loosely_ring",
    "allgather",
    schedule=rounds,
    cost=cost,
    parameters={"node": 4},
)
