"""Allgather through a mesh of two dimensions: along the rows, then along the columns.

Ranks are the points of an a x b mesh, a the largest divisor of p that is not above its square root. Everyone
sends its block to all others of its row, then the row's b blocks to all others of its column: to the nearest
one first or, with the switch `in_order`, to the first one, receives posted before.

**Cost**: ``(a+b-2)*alpha + (p-1)*n*beta``; in order 2d - 3 messages in a line of d > 2, not d - 1, because
all begin with the same rank.

**Requires**: nothing; any number of ranks. Parameter: `in_order`.

**Properties**: minimal volume in about 2*sqrt(p) messages. If p is prime the mesh is a line.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(12, 100)
Cost(rounds=5, volume_bytes=1100, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.allgather._mesh import through_mesh
from labkit.schedule.doubling import mesh

__all__ = ["ALGORITHM"]

ALGORITHM = through_mesh("mesh_2d", lambda size: mesh(size, 2))
