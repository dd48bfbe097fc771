"""Gatherv up a binomial tree: the counts first, then every rank collects its subtree's blocks.

The k-nomial tree of radix 2: see `knomial`.

**Cost**: for p a power of two ``(2*log2(p)-1)*alpha + ((p-1)*n + 8*(p/2-1))*beta`` with blocks of n bytes, at
most as many rounds for fewer ranks; ``_told.up_cost`` is exact for every p.

**Requires**: nothing; any ranks, any counts, zero included; any root. The root's counts are what the
ranks send, as MPI wants them.

**Properties**: no rank uses a size before MPI or a message has told it; a block travels through as many
ranks as its number has digits 1, so that one large block may travel log2(p) times.

**Reference**: J. L. Träff: Practical, distributed, low overhead algorithms for irregular gather and scatter
collectives. Parallel Computing 75, 2018. doi:10.1016/j.parco.2018.04.003

>>> cost(8, 100)
Cost(rounds=5, volume_bytes=724, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from labkit.algorithms.gather.knomial import subtree_blocks
from labkit.algorithms.gatherv import knomial
from labkit.algorithms.gatherv._told import tree_counts
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the counts' way up, then the blocks'."""
    return knomial.rounds(group, radix=2)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost (a bound, as messages differ in size) for blocks of `n_bytes`."""
    return knomial.cost(ranks, n_bytes, radix=2)


ALGORITHM = Algorithm(
    "binomial",
    "gatherv",
    schedule=rounds,
    cost=cost,
    temporaries=(
        Temporary("counts", like="send", blocks=partial(tree_counts, radix=2), holds="counts"),
        Temporary("subtree", like="send", blocks=partial(subtree_blocks, radix=2), holds="told"),
    ),
)
