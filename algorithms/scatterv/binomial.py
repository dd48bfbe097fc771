"""Scatterv down a binomial tree: the counts first, then the blocks of subtrees, split on the way.

The k-nomial tree of radix 2: see `knomial`.

**Cost**: for p a power of two ``(2*log2(p)-1)*alpha + ((p-1)*n + 8*(p-2))*beta`` with blocks of n
bytes; ``_told.down_cost`` is exact for every p.

**Requires**: nothing; any number of ranks, any counts, zero included; any root.

**Properties**: no rank uses a size before MPI or a message has told it; a block travels through as many
ranks as its number has digits 1, so that one large block may travel log2(p) times.

**Reference**: J. L. Träff: Practical, distributed, low overhead algorithms for irregular gather and scatter
collectives. Parallel Computing 75, 2018. doi:10.1016/j.parco.2018.04.003

>>> cost(8, 100)
Cost(rounds=5, volume_bytes=748, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from labkit.algorithms.gatherv._told import tree_counts
from labkit.algorithms.scatter.knomial import subtree_blocks
from labkit.algorithms.scatterv import knomial
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the counts' way down, then the blocks'."""
    return knomial.rounds(group, radix=2)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost (a bound, as messages differ in size) for blocks of `n_bytes`."""
    return knomial.cost(ranks, n_bytes, radix=2)


ALGORITHM = Algorithm(
    "binomial",
    "scatterv",
    schedule=rounds,
    cost=cost,
    temporaries=(
        Temporary("counts", like="recv", blocks=partial(tree_counts, radix=2), holds="counts"),
        Temporary("subtree", like="recv", blocks=partial(subtree_blocks, radix=2), holds="told"),
    ),
)
