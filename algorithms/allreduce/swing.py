"""Allreduce by Swing: everyone exchanges all it has with ranks that swing from side to side.

In round s even ranks exchange with the rank rho(s) to the right, odd ones with that to the left, where
rho(s) is the sum of (-2)**i over i = 0 ... s: 1, -1, 3, -5, 11, ... If p is no power of two, neighbors
fold in pairs.

**Cost**: as recursive doubling: with q = 2**k <= p k rounds of n bytes, each combined, and the fold.

**Requires**: a commutative operator; any number of ranks.

**Properties**: on a ring or torus partners are nearer than in recursive doubling (2**s apart), so that
links are shared by fewer. This is the form for short messages, in which all is exchanged.

**Reference**: D. De Sensi, T. Bonato, D. Saam, T. Hoefler: Swing: short-cutting rings for higher bandwidth
allreduce. NSDI 2024. doi:10.48550/arXiv.2401.09356

>>> cost(8, 800)
Cost(rounds=3, volume_bytes=2400, reduced_bytes=2400)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.allreduce._team import Partner, doubling, doubling_cost, into_recv
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step
from labkit.schedule.doubling import floor_power_of_two
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "cost", "partner_of", "rho", "rounds"]


def rho(s: int) -> int:
    """Return how far the partner of round s is: the sum of (-2)**i over i = 0 ... s."""
    return int((1 - (-2) ** (s + 1)) // 3)


def partner_of(core: int) -> Partner:
    """Return who exchanges with whom in a round, among a power of two ranks."""

    def partner(number: NDArray[np.int64], s: int) -> NDArray[np.int64]:
        far = np.where(number % 2 == 0, rho(s), -rho(s))
        return np.asarray((number + far) % core, np.int64)

    return partner


def rounds(group: Group) -> Iterator[Step]:
    """Yield fold, one exchange for each round, unfold."""
    yield into_recv(group)
    yield from doubling(everyone(group), partner=partner_of(floor_power_of_two(group.size)))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost."""
    return doubling_cost(ranks, n_bytes)


ALGORITHM = Algorithm(
    "swing",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    temporaries=("incoming",),
)
