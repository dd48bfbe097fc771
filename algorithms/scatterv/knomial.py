"""Scatterv down a k-nomial tree: the counts first, then subtrees' blocks travel together.

MPI tells the counts to the root alone, and each rank its own. So the root first tells every child that passes
blocks on the counts of its subtree, in 8 bytes each, and this one its children. Then blocks go as in the
k-nomial scatter.

**Cost**: counts and blocks one after another, ``_told.down_cost``. It pays where p - 1 messages out of the
root cost more than its volume.

**Requires**: nothing; any number of ranks, any counts, zero included; any root. Parameter: `radix` (k).

**Properties**: no rank uses a size before MPI or a message has told it; inner ranks need room for their
subtrees. Large blocks far from the root travel through every rank between.

**Reference**: J. L. Träff: Practical, distributed, low overhead algorithms for irregular gather and scatter
collectives. Parallel Computing 75, 2018. doi:10.1016/j.parco.2018.04.003

>>> cost(16, 800)
Cost(rounds=9, volume_bytes=12096, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.gatherv._told import counts_down, down_cost, tree_counts
from labkit.algorithms.scatter import knomial as scatter
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary
from labkit.schedule.trees import knomial as tree_of

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, radix: int = 4) -> Iterator[Step]:
    """Yield the counts' way down, then the blocks'."""
    yield from counts_down(group, radix)
    yield from scatter.rounds(group, radix)


def cost(ranks: int, n_bytes: float, radix: int = 4) -> Cost:
    """Return the exact cost (a bound, as messages differ in size) for blocks of `n_bytes`."""
    return down_cost(tree_of(ranks, radix), n_bytes)


ALGORITHM = Algorithm(
    "knomial",
    "scatterv",
    schedule=rounds,
    cost=cost,
    temporaries=(
        Temporary("counts", like="recv", blocks=tree_counts, holds="counts"),
        Temporary("subtree", like="recv", blocks=scatter.subtree_blocks, holds="told"),
    ),
    parameters={"radix": 4},
)
