"""Allreduce over a Bine butterfly: reduce-scatter by halving, allgather by doubling.

As Rabenseifner's algorithm, but the halves are kept by the bits of labels in base -2 (`bine_labels`), so
that partners are 1, 1, 3, 5, 11, ... ranks apart, to both sides. If p is no power of two, neighbors fold
in pairs.

**Cost**: as Rabenseifner: with q = 2**k <= p 2k rounds, ``2(q-1)/q*n`` bytes, and the fold.

**Requires**: a commutative operator; any number of ranks.

**Properties**: minimal volume in few rounds for powers of two, over less distance.

**Reference**: D. De Sensi et al.: Bine trees: enhancing collective operations by optimizing communication
locality. SC 2025. doi:10.48550/arXiv.2508.17311

>>> cost(8, 800)
Cost(rounds=6, volume_bytes=1400.0, reduced_bytes=700.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allreduce._team import halving, halving_cost, into_recv
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step
from labkit.schedule.doubling import bine_labels, floor_power_of_two
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield fold, halving, doubling, unfold."""
    yield into_recv(group)
    yield from halving(everyone(group), bine_labels(floor_power_of_two(group.size)))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost when the largest power of two in p divides the message."""
    return halving_cost(ranks, n_bytes)


ALGORITHM = Algorithm(
    "bine_halving",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=floor_power_of_two,
    temporaries=("incoming",),
)
