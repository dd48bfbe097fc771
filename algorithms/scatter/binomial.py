"""Scatter down a binomial tree: the blocks of a subtree travel together and are split on the way.

Ranks are numbered from the root on. In the round with distance d = 2**k (the largest first) every rank
whose number is a multiple of 2d sends the blocks of the subtree that starts d further on. With the switch
`near_first` a rank serves the nearest one first, as Open MPI does.

**Cost**: ceil(log2 p) rounds, p - 1 blocks of n bytes through the root's port, for every p:
``ceil(log2 p)*alpha + (p-1)*n*beta``. Near first, with L = log2 p, ``L*(L+1)/2*alpha + (2p-2-L)*n*beta``.

**Requires**: nothing; any number of ranks, any root; equal block sizes. Parameter: `near_first`.

**Properties**: optimal in rounds and in the root's volume; inner ranks need a work buffer for their
subtree.

**Reference**: E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory,
practice, and experience. Concurrency and Computation 19(13), 2007. doi:10.1002/cpe.1206

>>> cost(6, 100)
Cost(rounds=3, volume_bytes=500, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from labkit.algorithms.scatter import knomial
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary
from labkit.schedule.doubling import ceil_log2

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, near_first: int = 0) -> Iterator[Step]:
    """Yield one step for each level of the tree, from the root down."""
    return knomial.rounds(group, radix=2, near_first=near_first)


def cost(ranks: int, n_bytes: float, near_first: int = 0) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    if near_first:
        return knomial.cost(ranks, n_bytes, radix=2, near_first=near_first)
    return Cost(ceil_log2(ranks), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "binomial",
    "scatter",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("subtree", like="recv", blocks=partial(knomial.subtree_blocks, radix=2)),),
    parameters={"near_first": 0},
)
