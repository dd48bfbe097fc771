"""Allgather by neighbor exchange: ranks swap two blocks with their left and right neighbors in turn.

First the pairs (0, 1), (2, 3), ... swap their blocks. Then everyone swaps with its other neighbor, and so
on in turn, each time the two blocks that came last (in the first turn, the pair's own two).

**Cost**: p/2 rounds; all but the first carry two blocks of n bytes: ``p/2*alpha + (p-1)*n*beta``.

**Requires**: an even number of ranks.

**Properties**: half of the ring's start-ups, still only neighbors, minimal volume.

**Reference**: J. Chen, L. Zhang, Y. Zhang, W. Yuan: Performance evaluation of allgather algorithms on
terascale Linux cluster with fast Ethernet. HPC Asia 2005. doi:10.1109/HPCASIA.2005.75

>>> cost(8, 100)
Cost(rounds=4, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, block, blocks

Numbers = NDArray[np.int64]

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield p/2 exchanges."""
    me, p = group.ranks, group.size
    yield group.copy(block("send"), block("recv", me))
    is_even = me % 2 == 0
    for turn in range(p // 2):
        # even ranks begin to the right, odd ones to the left
        side = np.where(is_even, 1, -1) * (1 if turn % 2 == 0 else -1)
        peer = (me + side) % p
        if turn == 0:
            yield group.sendrecv(block("recv", me), peer, block("recv", peer), peer)
            continue
        # what a rank has got last lies on the other side, turn - 1 ranks away at its near end
        known, new = _pair(me, -side, turn - 1, is_even), _pair(peer, side, turn - 1, ~is_even)
        yield group.sendrecv(blocks("recv", known, 2), peer, blocks("recv", new, 2), peer)


def _pair(rank: Numbers, side: Numbers, distance: int, is_even: NDArray[np.bool_]) -> Numbers:
    """Return the first block of the pair that a rank got last, from its neighbor on this side."""
    own = np.where(is_even, rank, rank - 1)
    return own if distance == 0 else own + side * 2 * ((distance + 1) // 2)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks // 2, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "neighbor_exchange", "allgather", schedule=rounds, cost=cost, requirements=Requirements(even=True)
)
