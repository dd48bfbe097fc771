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

import numpy as np
from numpy.typing import NDArray

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block, blocks, whole
from labkit.schedule.powers import ceil_log2, doublings, subtree_sizes

__all__ = ["ALGORITHM", "cost", "rounds", "subtree_blocks"]


def subtree_blocks(group: Group) -> NDArray[np.int64]:
    """Return how many blocks pass through each rank's work buffer (none at leaves and at the root)."""
    number = (group.ranks - group.root) % group.size
    sizes = subtree_sizes(number, group.size)
    return np.where((number == 0) | (sizes == 1), 0, sizes)


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each level of the tree, from the leaves up."""
    me, p, root = group.ranks, group.size, group.root
    number = (me - root) % p
    is_root, is_inner = number == 0, subtree_blocks(group) > 0
    yield group.copy(block("send"), block("recv", root), where=is_root)
    yield group.copy(block("send"), block("subtree"), where=is_inner)
    for distance in doublings(p):
        is_child = number % (2 * distance) == distance
        is_parent = (number % (2 * distance) == 0) & (number + distance < p)
        to, child = (me - distance) % p, (me + distance) % p
        received = np.minimum(distance, p - number - distance)
        yield (
            group.send(whole("subtree"), to, where=is_child & is_inner)
            + group.send(block("send"), to, where=is_child & ~is_inner)
            + group.recv(blocks("subtree", distance, received), child, where=is_parent & is_inner)
            + group.recv(blocks("recv", child, received), child, where=is_parent & is_root)
        )


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ceil_log2(ranks), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "binomial",
    "gather",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("subtree", like="send", blocks=subtree_blocks),),
)
