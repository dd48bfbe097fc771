"""Scatterv in two levels: counts and blocks of a node to its leader, who hands the blocks out.

A node is `node` consecutive ranks; its leader is its first rank, or the root. The root tells every leader the
counts of its node, in 8 bytes each, then sends it their blocks. Open MPI's component `han` works on the
same two levels (5.0.x, coll_han_scatterv.c).

**Cost**: ``(2*(N-1) + c-1)*alpha + ((p-1)*n + 8*(N-1)*c)*beta`` for N nodes of c ranks.

**Requires**: nothing; any number of ranks, any counts, zero included; any root. Parameter: `node` (ranks of a
node).

**Properties**: no rank uses a size before MPI or a message has told it; between nodes there are two messages
a node, instead of one a rank.

**Reference**: X. Luo, W. Wu, G. Bosilca, Y. Pei, Q. Cao, T. Patinyasakdikul, D. Zhong, J. Dongarra: HAN: a
Hierarchical AutotuNed Collective Communication Framework. CLUSTER 2020.
doi:10.1109/CLUSTER49012.2020.00013

>>> cost(32, 100)
Cost(rounds=13, volume_bytes=3292, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.gather._passing import node_blocks
from labkit.algorithms.gatherv._told import node_counts
from labkit.algorithms.scatter import two_level_direct as scatter
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, blocks
from labkit.schedule.group import leaders
from labkit.schedule.schedule import COUNT_BYTES

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the counts of nodes without the root, then the blocks' way."""
    p, root = group.size, group.root
    outside = leaders(group, node, root)
    is_root, mine = group.ranks == root, node_blocks(group, node)
    yield outside.recv(blocks("counts", 0, mine), 0, where=~is_root)
    for number in range(1, outside.largest):
        first = (root // node + number) % outside.largest * node
        size = min(node, p - first)
        yield outside.isend(blocks("counts", first - root, size), number, where=is_root)
    yield group.wait(where=is_root)
    yield from scatter.rounds(group, node)


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the exact cost (a bound, as messages differ in size) for blocks of `n_bytes`."""
    sizes = [min(node, ranks - begin) for begin in range(0, ranks, node)]
    plain = scatter.cost(ranks, n_bytes, node)
    volume = plain.volume_bytes + COUNT_BYTES * sum(sizes[1:])
    return Cost(plain.rounds + len(sizes) - 1, volume, is_bound=True)


ALGORITHM = Algorithm(
    "two_level_direct",
    "scatterv",
    schedule=rounds,
    cost=cost,
    temporaries=(
        Temporary("counts", like="recv", blocks=node_counts, holds="counts"),
        Temporary("node", like="recv", blocks=node_blocks, holds="told"),
    ),
    parameters={"node": 8},
)
