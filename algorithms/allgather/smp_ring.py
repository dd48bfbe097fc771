"""Allgather in two levels, overlapped: what leaders pass around their ring runs down a chain in every node.

A node is c consecutive ranks, c the largest divisor of p not above `node`, led by its first one. The ranks of
a node swap their blocks by shifts. The leaders pass the nodes' blocks around a ring, all receives posted at
the beginning; what arrives goes on to the next node and to the next rank of the own node, and from rank to
rank to its last one.

**Cost**: with N = p/c nodes, N and c at least 3: ``(c-1)*(alpha + n*beta) + (2N+c-3)*(alpha + c*n*beta)``: a
leader sends twice what comes, and the last block runs down the chain.

**Requires**: nothing; any number of ranks. Parameter: `node` (ranks of a node).

**Properties**: every block goes from node to node once and from rank to rank once; nobody sends more than two
messages at a time.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> cost(32, 800)
Cost(rounds=20, volume_bytes=88800, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allgather._nodes import stretch
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import largest_divisor
from labkit.schedule.group import leaders, members

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the shifts in nodes, then a step for each node's blocks."""
    me, c = group.ranks, largest_divisor(group.size, node)
    outside, inside = leaders(group, c), members(group, c)
    home, n, number = me // c, outside.largest, inside.number
    yield group.copy(block("send"), block("recv", me))
    for i in range(1, c):
        source = (number - i) % c
        yield inside.sendrecv(block("send"), (number + i) % c, block("recv", inside.rank(source)), source)
    for i in range(1, n):
        yield outside.irecv(stretch(group, c, (home - i) % n), (home - 1) % n, label=i)
    if n > 1:
        yield outside.isend(stretch(group, c, home), (home + 1) % n)
    for i in range(1, n):
        new = stretch(group, c, (home - i) % n)
        yield outside.wait(label=i)
        if i + 1 < n:
            yield outside.isend(new, (home + 1) % n)
        yield inside.recv(new, number - 1, where=number > 0)
        yield inside.send(new, number + 1, where=number + 1 < c)
    if n > 1:
        yield outside.wait()


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    c = largest_divisor(ranks, node)
    messages = _messages(ranks // c, c)
    return Cost(c - 1 + messages, (c - 1 + messages * c) * n_bytes)


def _messages(nodes: int, c: int) -> int:
    """Return how many messages of a node's blocks follow one another, around the ring and down the chain."""
    if nodes == 1 or c == 1:
        return nodes - 1
    if nodes == 2:
        return c  # one around, and c - 1 down
    return 2 * nodes + (c - 3 if c > 2 else -2)


ALGORITHM = Algorithm(
    "smp_ring",
    "allgather",
    schedule=rounds,
    cost=cost,
    parameters={"node": 8},
)
