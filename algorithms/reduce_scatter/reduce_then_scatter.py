"""Reduce-scatter with blocks of any sizes, as its name says.

The schedule is that of the reduction and scatter for equal blocks; only the sizes differ. They are bound
at run time: every rank knows all of them.

**Cost**: with equal blocks of n bytes
``ceil(log2 p) * (alpha + p*n*(beta + gamma)) + (p-1) * (alpha + n*beta)``; otherwise the same with the sum
of the counts for p*n.

**Requires**: nothing; any number of ranks, any counts, zero included, any associative operator.

**Properties**: the baseline; operands in rank order. Rank 0 has all the work.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(4, 100)
Cost(rounds=5, volume_bytes=1100, reduced_bytes=800)
"""

from __future__ import annotations

from labkit.algorithms.reduce_scatter_block import reduce_then_scatter

__all__ = ["ALGORITHM"]

ALGORITHM = reduce_then_scatter.ALGORITHM.taken_as("reduce_scatter")
