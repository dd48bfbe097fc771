"""Alltoall through a mesh of two dimensions: along the columns, then along the rows.

Ranks are the points of an a x b mesh, a the largest divisor of p that is not above its square root. A rank
first sends to every rank of its column the b blocks that belong in that one's row, then to every rank of its
row the a blocks that have come together for it. With the switch `whole` everyone sends all its p blocks along
its row, and what belongs in a column goes there, in order of rank.

**Cost**: ``(a+b-2)*alpha + ((a-1)*b + (b-1)*a)*n*beta``: about 2*sqrt(p) messages and twice the volume for
squares. Whole: 2d - 3 messages in a line of d > 2, those of a row with p blocks.

**Requires**: nothing; any number of ranks. Parameter: `whole`.

**Properties**: every block travels at most twice; messages grow. If p is prime the mesh is a line and the
algorithm that of shifts.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(12, 100)
Cost(rounds=5, volume_bytes=1700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.alltoall._mesh import through_mesh
from labkit.schedule.doubling import mesh

__all__ = ["ALGORITHM"]

ALGORITHM = through_mesh("mesh_2d", lambda size: mesh(size, 2))
