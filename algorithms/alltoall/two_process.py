"""Alltoall of two processes: one exchange.

Each rank sends its block for the other one and receives the other one's.

**Cost**: one round of one block of n bytes: ``alpha + n*beta``.

**Requires**: at most two ranks.

**Properties**: the special case that Open MPI keeps apart.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(2, 100)
Cost(rounds=1, volume_bytes=100, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.alltoall._exchange import cost_of, rounds_of
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the one exchange."""
    return rounds_of(group, is_paired=True)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return cost_of(ranks, n_bytes)


ALGORITHM = Algorithm(
    "two_process", "alltoall", schedule=rounds, cost=cost, requirements=Requirements(max_ranks=2)
)
