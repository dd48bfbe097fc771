"""Allgather by recursive halving: everyone passes all it has to a rank half as far away each time.

In the round with distance d = p/2, p/4, ..., 1 ranks r and r XOR d swap all they have: first what is far
away, one block, at last half of everything with the neighbour. If p is no power of two, the dimensions are
its prime factors f, and everyone sends to all f - 1 others of its line.

**Cost**: ``log2(p)*alpha + (p-1)*n*beta`` for powers of two; in general a message for each f - 1.

**Requires**: nothing; any number of ranks.

**Properties**: minimal volume and, for powers of two, fewest rounds; long messages go to near ranks, but
their blocks lie apart.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(8, 100)
Cost(rounds=3, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.allgather._mesh import through_mesh
from labkit.schedule.powers import prime_factors

__all__ = ["ALGORITHM"]

ALGORITHM = through_mesh("recursive_halving", prime_factors, is_last_first=False)
