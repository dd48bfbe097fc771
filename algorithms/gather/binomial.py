"""Gather up a binomial tree: every rank collects its subtree's blocks and sends them on in one message.

Ranks are numbered from the root on. In the round with distance d = 1, 2, 4, ... every rank whose number is
an odd multiple of d sends what it has, the blocks of its subtree, to the rank d before it. The root's
blocks arrive where they belong (the range may wrap around).

**Cost**: ceil(log2 p) rounds, p - 1 blocks of n bytes through the root's port, for every p:
``ceil(log2 p)*alpha + (p-1)*n*beta``.

**Requires**: nothing; any number of ranks, any root; equal block sizes.

**Properties**: optimal in rounds and in the root's volume; inner ranks need a work buffer for their
subtree and forward blocks of others (which is why the vector version cannot use it).

**Reference**: E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory,
practice, and experience. Concurrency and Computation 19(13), 2007. doi:10.1002/cpe.1206

>>> cost(6, 100)
Cost(rounds=3, volume_bytes=500, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from labkit.algorithms.gather import knomial
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary
from labkit.schedule.doubling import ceil_log2

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each level of the tree, from the leaves up."""
    return knomial.rounds(group, radix=2)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ceil_log2(ranks), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "binomial",
    "gather",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("subtree", like="send", blocks=partial(knomial.subtree_blocks, radix=2)),),
)
