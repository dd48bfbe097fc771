"""Reduce-scatter as its name says: everything is reduced at rank 0, which then sends every rank its block.

The reduction goes up a binomial tree; the blocks go out one by one.

**Cost**: ceil(log2 p) messages of p blocks of n bytes, then p - 1 of one block:
``ceil(log2 p) * (alpha + p*n*beta + p*n*gamma) + (p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: the baseline that the others must beat; operands in rank order. Rank 0 has all the work.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(4, 100)
Cost(rounds=5, volume_bytes=1100, reduced_bytes=800)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block, whole
from labkit.schedule.doubling import ceil_log2, doublings

__all__ = ["ALGORITHM", "TEMPORARIES", "cost", "rounds"]

TEMPORARIES = (Temporary("partial", like="send"), Temporary("incoming", like="send"))

PARTIAL, INCOMING = whole("partial"), whole("incoming")


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each level of the tree, from the leaves up, then rank 0's messages."""
    me, p = group.ranks, group.size
    yield group.copy(whole("send"), PARTIAL)
    for distance in doublings(p):
        is_child = me % (2 * distance) == distance
        is_parent = (me % (2 * distance) == 0) & (me + distance < p)
        yield (
            group.send(PARTIAL, to=me - distance, where=is_child)
            + group.recv(INCOMING, source=me + distance, where=is_parent)
            + group.combine(INCOMING, PARTIAL, source_first=False, where=is_parent)
        )
    yield group.copy(block("partial"), block("recv"), where=me == 0)
    for target in range(1, p):
        yield group.isend(block("partial", target), to=target, where=me == 0)
    yield group.recv(block("recv"), source=0, where=me > 0) + group.wait(where=me == 0)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    levels, everything = ceil_log2(ranks), ranks * n_bytes
    return Cost(levels + ranks - 1, levels * everything + (ranks - 1) * n_bytes, levels * everything)


ALGORITHM = Algorithm(
    "reduce_then_scatter", "reduce_scatter_block", schedule=rounds, cost=cost, temporaries=TEMPORARIES
)
