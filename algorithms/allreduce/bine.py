"""Allreduce by recursive doubling over a Bine butterfly: all is exchanged, with near partners.

Ranks are labeled by their digits in base -2 (`bine_labels`); in each round, everyone exchanges its partial
result with the label that differs in one bit. Partners are 1, 1, 3, 5, 11, ... ranks apart, to both sides. If
p is no power of two, neighbors fold in pairs first.

**Cost**: as recursive doubling: with q = 2**k <= p k rounds of n bytes, each combined, and the fold.

**Requires**: a commutative operator; any number of ranks.

**Properties**: for short messages; less distance than recursive doubling.

**Reference**: D. De Sensi et al.: Bine trees: enhancing collective operations by optimizing communication
locality. SC 2025. doi:10.48550/arXiv.2508.17311

>>> cost(8, 800)
Cost(rounds=3, volume_bytes=2400, reduced_bytes=2400)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.algorithms.allreduce._team import doubling, doubling_cost, into_recv
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step
from labkit.schedule.doubling import bine_labels, floor_power_of_two
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield fold, one exchange for each bit, unfold."""
    labels = bine_labels(floor_power_of_two(group.size))
    number_of = np.argsort(labels)
    yield into_recv(group)
    yield from doubling(
        everyone(group), partner=lambda number, k: number_of[labels[number % len(labels)] ^ 1 << k]
    )


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost."""
    return doubling_cost(ranks, n_bytes)


ALGORITHM = Algorithm(
    "bine",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    temporaries=("incoming",),
)
