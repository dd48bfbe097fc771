"""Scatter down a binomial tree: the blocks of a subtree travel together and are split on the way.

Ranks are numbered from the root on. In the round with distance d = 2**k (the largest first) every rank
whose number is a multiple of 2d sends the blocks of the subtree that starts d further on.

**Cost**: ceil(log2 p) rounds, p - 1 blocks of n bytes through the root's port, for every p:
``ceil(log2 p)*alpha + (p-1)*n*beta``.

**Requires**: nothing; any number of ranks, any root; equal block sizes.

**Properties**: optimal in rounds and in the root's volume; inner ranks need a work buffer for their
subtree.

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
    """Yield one step for each level of the tree, from the root down."""
    me, p, root = group.ranks, group.size, group.root
    number = (me - root) % p
    is_root, is_inner = number == 0, subtree_blocks(group) > 0
    for distance in reversed(doublings(p)):
        is_child = number % (2 * distance) == distance
        is_parent = (number % (2 * distance) == 0) & (number + distance < p)
        source, child = (me - distance) % p, (me + distance) % p
        sent = np.minimum(distance, p - number - distance)
        yield (
            group.recv(whole("subtree"), source, where=is_child & is_inner)
            + group.recv(block("recv"), source, where=is_child & ~is_inner)
            + group.send(blocks("subtree", distance, sent), child, where=is_parent & is_inner)
            + group.send(blocks("send", child, sent), child, where=is_parent & is_root)
        )
    yield group.copy(block("send", root), block("recv"), where=is_root)
    yield group.copy(block("subtree"), block("recv"), where=is_inner)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ceil_log2(ranks), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "binomial",
    "scatter",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("subtree", like="recv", blocks=subtree_blocks),),
)
