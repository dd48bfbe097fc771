"""Alltoall by recursive doubling: through a mesh whose every dimension is a prime factor of p.

If p is a power of two, rank r exchanges half of all its blocks with r XOR p/2, r XOR p/4, ..., r XOR 1. In
general the dimensions are the prime factors of p, and along one of f ranks everyone sends p/f blocks to each
of f - 1 others.

**Cost**: ``(sum of (f-1))*alpha + (sum of (f-1)*p/f)*n*beta`` over the prime factors f: ``log2(p) * (alpha +
p/2*n*beta)`` for powers of two.

**Requires**: nothing; any number of ranks.

**Properties**: fewest rounds for powers of two, as Bruck; blocks stay in order, so that nothing is rotated,
but messages are strided.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> cost(8, 100)
Cost(rounds=3, volume_bytes=1200, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.alltoall._mesh import cost_of, rounds_of
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.powers import prime_factors

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the exchanges along each dimension."""
    return rounds_of(group, prime_factors(group.size))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return cost_of(prime_factors(ranks), n_bytes)


ALGORITHM = Algorithm("recursive_doubling", "alltoall", schedule=rounds, cost=cost, temporaries=("moving",))
