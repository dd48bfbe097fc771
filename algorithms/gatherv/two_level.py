"""Gatherv in two levels: counts and blocks to the leader of every node, then a message a node to the root.

A node is `node` consecutive ranks; its leader is its first rank, or the root. The members tell their leader
their counts, in 8 bytes each, then send their blocks; the root knows all counts. So does Open MPI's component
`han` (5.0.x, coll_han_gatherv.c).

**Cost**: ``(2*(c-1) + N-1)*alpha + ((p-1)*n + 8*(c-1))*beta`` for N > 1 nodes of c ranks, blocks of n bytes.

**Requires**: nothing; any ranks, any counts, zero included; any root. The root's counts are what the
ranks send, as MPI wants them. Parameter: `node` (ranks of a node).

**Properties**: no rank uses a size before MPI or a message has told it; between nodes there is one message a
node, instead of one a rank.

**Reference**: X. Luo, W. Wu, G. Bosilca, Y. Pei, Q. Cao, T. Patinyasakdikul, D. Zhong, J. Dongarra: HAN: a
Hierarchical AutotuNed Collective Communication Framework. CLUSTER 2020.
doi:10.1109/CLUSTER49012.2020.00013

>>> cost(32, 100)
Cost(rounds=17, volume_bytes=3156, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.gather import two_level as gather
from labkit.algorithms.gather._passing import node_blocks
from labkit.algorithms.gatherv._told import node_counts
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block
from labkit.schedule.group import members
from labkit.schedule.schedule import COUNT_BYTES

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the counts of nodes without the root, then the blocks' way."""
    inside = members(group, node, group.root)
    is_root_near = group.ranks // node == group.root // node
    is_leader = (inside.number == 0) & ~is_root_near
    yield inside.send(block("counts"), 0, where=(inside.number > 0) & ~is_root_near)
    for number in range(1, inside.largest):
        is_there = is_leader & (number < inside.size)
        yield inside.irecv(block("counts", number), number, where=is_there)
    yield group.wait(where=is_leader)
    yield from gather.rounds(group, node)


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the exact cost (a bound, as messages differ in size) for blocks of `n_bytes` and root 0."""
    sizes = [min(node, ranks - begin) for begin in range(0, ranks, node)]
    return Cost(_last(sizes, 1, 0, 0), _last(sizes, 0, COUNT_BYTES, n_bytes), is_bound=True)


def _last(sizes: list[int], message: float, count: float, block: float) -> float:
    """Return when the root has the message of the last leader; the first one to be ready comes first."""
    time = (sizes[0] - 1) * (message + block)
    ready = sorted(((c - 1) * (2 * message + count + block), message + c * block) for c in sizes[1:])
    for begin, length in ready:
        time = max(time, begin) + length
    return time


ALGORITHM = Algorithm(
    "two_level",
    "gatherv",
    schedule=rounds,
    cost=cost,
    temporaries=(
        Temporary("counts", like="send", blocks=node_counts, holds="counts"),
        Temporary("node", like="send", blocks=node_blocks, holds="told"),
    ),
    parameters={"node": 8},
)
