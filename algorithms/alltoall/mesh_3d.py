"""Alltoall through a mesh of three dimensions, along one after another.

Ranks are the points of an a x b x c mesh, as near to a cube as p allows, a the largest. Along each dimension
of d ranks everyone sends to each of the d - 1 others of its line the p/d blocks that must get there. With the
switch `whole` everyone sends all it has along the last two dimensions, and chooses before the first one.

**Cost**: ``(a+b+c-3)*alpha + (p/a*(a-1) + p/b*(b-1) + p/c*(c-1))*n*beta``. Whole: messages of p and c*p
blocks along the last two dimensions, 2d - 3 in a line of d > 2.

**Requires**: nothing; any number of ranks. Parameter: `whole`.

**Properties**: three times the volume in 3*(p**(1/3) - 1) messages for cubes: for short blocks and many
ranks. If p is prime the mesh is a line.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(27, 100)
Cost(rounds=6, volume_bytes=5400, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.alltoall._mesh import through_mesh
from labkit.schedule.doubling import mesh

__all__ = ["ALGORITHM"]

ALGORITHM = through_mesh("mesh_3d", lambda size: mesh(size, 3)[::-1])
