"""Reduce-scatter with blocks of any sizes, as a flat reduction and a scatter.

The schedule is that of the reduction and scatter for equal blocks; only the sizes differ. They are bound
at run time: every rank knows all of them.

**Cost**: with equal blocks of n bytes
``(p-1) * (alpha + p*n*(beta + gamma)) + (p-1) * (alpha + n*beta)``; otherwise the same with the sum of the
counts for p*n.

**Requires**: nothing; any number of ranks, any counts, zero included, any associative operator.

**Properties**: operands in rank order; rank 0 has all the work, and p work buffers as large as all blocks.
What SimGrid's SMPI does for equal blocks.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(4, 100)
Cost(rounds=6, volume_bytes=1500, reduced_bytes=1200)
"""

from __future__ import annotations

from labkit.algorithms.reduce_scatter_block import flat_scatter

__all__ = ["ALGORITHM"]

ALGORITHM = flat_scatter.ALGORITHM.taken_as("reduce_scatter")
