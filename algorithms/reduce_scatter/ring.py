"""Reduce-scatter with blocks of any sizes, around a ring.

The schedule is that of the ring for equal blocks; only the sizes differ. They are bound
at run time: every rank knows all of them.

**Cost**: with equal blocks of n bytes ``(p-1) * (alpha + n*beta + n*gamma)``; otherwise the largest
block sets the pace.

**Requires**: a commutative operator; any number of ranks, any counts, zero included.

**Properties**: only neighbors talk; one large block delays everybody.

**Reference**: P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of
workstations. JPDC 69(2), 2009. doi:10.1016/j.jpdc.2008.09.002

>>> ALGORITHM.cost(4, 200)
Cost(rounds=3, volume_bytes=600, reduced_bytes=600)
"""

from __future__ import annotations

from labkit.algorithms.reduce_scatter_block import ring

__all__ = ["ALGORITHM"]

ALGORITHM = ring.ALGORITHM.taken_as("reduce_scatter")
