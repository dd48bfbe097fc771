"""Allgather through a mesh of three dimensions, along one after another.

Ranks are the points of an a x b x c mesh, as near to a cube as p allows, a the largest. Along each dimension,
the last one first, everyone sends all it has to all others of its line: to the nearest one first or, with the
switch `in_order`, receives posted before, along the first two dimensions to the first one.

**Cost**: ``(a+b+c-3)*alpha + (p-1)*n*beta``; in order 2d - 3 messages in a line of d > 2 along these two, not
d - 1.

**Requires**: nothing; any number of ranks. Parameter: `in_order`.

**Properties**: minimal volume in about 3*p**(1/3) messages. If p is prime the mesh is a line.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(27, 100)
Cost(rounds=6, volume_bytes=2600, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.allgather._mesh import through_mesh
from labkit.schedule.doubling import mesh

__all__ = ["ALGORITHM"]

ALGORITHM = through_mesh("mesh_3d", lambda size: mesh(size, 3)[::-1])
