"""Gatherv up a k-nomial tree: the counts first, then subtrees' blocks travel together.

MPI tells the counts to the root alone. So every rank first tells its parent the counts of its subtree, in 8
bytes each; the children of the root, which knows them, tell nobody. Then blocks go as in the k-nomial gather.

**Cost**: counts and blocks one after another, ``_told.up_cost``; for p = k^m ranks the root has its last
block after ``(k-1)*(2m-1)`` messages. It pays where p - 1 messages into the root cost more than its volume.

**Requires**: nothing; any ranks, any counts, zero included; any root. The root's counts are what the
ranks send, as MPI wants them. Parameter: `radix` (k).

**Properties**: no rank uses a size before MPI or a message has told it; inner ranks need room for their
subtrees. Whether the tree pays depends on the counts, which at the call no rank but the root knows: large
blocks far from the root travel through every rank between.

**Reference**: J. L. Träff: Practical, distributed, low overhead algorithms for irregular gather and scatter
collectives. Parallel Computing 75, 2018. doi:10.1016/j.parco.2018.04.003

>>> cost(16, 800)
Cost(rounds=9, volume_bytes=12024, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.gather import knomial as gather
from labkit.algorithms.gatherv._told import counts_up, tree_counts, up_cost
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary
from labkit.schedule.trees import knomial as tree_of

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, radix: int = 4) -> Iterator[Step]:
    """Yield the counts' way up, then the blocks'."""
    yield from counts_up(group, radix)
    yield from gather.rounds(group, radix)


def cost(ranks: int, n_bytes: float, radix: int = 4) -> Cost:
    """Return the exact cost (a bound, as messages differ in size) for blocks of `n_bytes`."""
    return up_cost(tree_of(ranks, radix), n_bytes)


ALGORITHM = Algorithm(
    "knomial",
    "gatherv",
    schedule=rounds,
    cost=cost,
    temporaries=(
        Temporary("counts", like="send", blocks=tree_counts, holds="counts"),
        Temporary("subtree", like="send", blocks=gather.subtree_blocks, holds="told"),
    ),
    parameters={"radix": 4},
)
