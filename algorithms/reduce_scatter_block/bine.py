"""Reduce-scatter by recursive halving over a Bine butterfly: partners are near.

Ranks and blocks are labeled by their digits in base -2 (`bine_labels`), and the blocks brought into the
order of the labels. In each round, everyone exchanges half of the blocks that it still works on with the
label that differs in one bit, and combines the other half; partners are 1, 1, 3, 5, 11, ... ranks apart.

**Cost**: log2 p rounds, ``log2(p)*alpha + (p-1)*n*(beta + gamma)``.

**Requires**: a power of two ranks, and a commutative operator.

**Properties**: as recursive halving, over less distance; a local reordering before.

**Reference**: D. De Sensi et al.: Bine trees: enhancing collective operations by optimizing communication
locality. SC 2025. doi:10.48550/arXiv.2508.17311

>>> cost(8, 800)
Cost(rounds=3, volume_bytes=5600, reduced_bytes=5600)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, Temporary, block, blocks
from labkit.schedule.doubling import bine_labels, doublings

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the reordering, then one step for each bit."""
    me, p = group.ranks, group.size
    labels = bine_labels(p)
    number_of, mine = np.argsort(labels), labels[me]
    for number in range(p):
        yield group.copy(block("send", number), block("partial", int(labels[number])))
    for distance in reversed(doublings(p)):
        other = mine ^ distance
        peer, received = number_of[other], blocks("incoming", mine // distance * distance, distance)
        yield group.sendrecv(
            blocks("partial", other // distance * distance, distance), peer, received, peer
        ) + group.combine(received, blocks("partial", mine // distance * distance, distance))
    yield group.copy(block("partial", mine), block("recv"))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    n = (ranks - 1) * n_bytes
    return Cost(ranks.bit_length() - 1, n, n)


ALGORITHM = Algorithm(
    "bine",
    "reduce_scatter_block",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(power_of_two=True, commutative=True),
    temporaries=(Temporary("partial", like="send"), Temporary("incoming", like="send")),
)
