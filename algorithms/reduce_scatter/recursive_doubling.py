"""Reduce-scatter with blocks of any sizes, by recursive doubling.

The schedule is that of the reduce-scatter for equal blocks; only the sizes differ. They are bound at run
time: every rank knows all of them.

**Cost**: with equal blocks of n bytes that of equal blocks; otherwise each round lasts as long as its largest
message.

**Requires**: nothing; any number of ranks, any counts, zero included, any associative operator.

**Properties**: operands in rank order.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> ALGORITHM.cost(8, 100)
Cost(rounds=3, volume_bytes=1700, reduced_bytes=1300)
"""

from __future__ import annotations

from labkit.algorithms.reduce_scatter_block import recursive_doubling

__all__ = ["ALGORITHM"]

ALGORITHM = recursive_doubling.ALGORITHM.taken_as("reduce_scatter")
