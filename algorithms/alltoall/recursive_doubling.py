"""Alltoall by recursive doubling: through a mesh whose every dimension is a prime factor of p.

If p is a power of two, rank r exchanges half of all its blocks with r XOR p/2, r XOR p/4, ..., r XOR 1. In
general the dimensions are the prime factors of p, and along one of f ranks everyone sends p/f blocks to each
of f - 1 others. With the switch `whole` nobody chooses: everyone gets all p*p blocks by doubling
(`labkit.schedule.doubling`) and keeps its own.

**Cost**: ``(sum of (f-1))*alpha + (sum of (f-1)*p/f)*n*beta`` over the prime factors f: ``log2(p) * (alpha +
p/2*n*beta)`` for powers of two. Whole: ``log2(p)*alpha + p*(p-1)*n*beta`` for these.

**Requires**: nothing; any number of ranks. Parameter: `whole`.

**Properties**: fewest rounds for powers of two, as Bruck; blocks stay in order, so that nothing is rotated,
but messages are strided.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(8, 100)
Cost(rounds=3, volume_bytes=1200, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.alltoall._mesh import through_mesh
from labkit.schedule.doubling import prime_factors

__all__ = ["ALGORITHM"]

ALGORITHM = through_mesh("recursive_doubling", prime_factors, is_by_doubling=True)
