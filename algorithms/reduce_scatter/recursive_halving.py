"""Reduce-scatter with blocks of any sizes, by recursive halving.

The schedule is that of the recursive halving for equal blocks; only the sizes differ. They are bound
at run time: every rank knows all of them.

**Cost**: with equal blocks of n bytes that of equal blocks (k rounds for p = 2**k,
``k*alpha + (p-1)*n*(beta + gamma)``); otherwise each round lasts as long as
its largest message.

**Requires**: a commutative operator; any number of ranks, any counts, zero included.

**Properties**: every message is one stretch of memory, whatever the sizes.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> ALGORITHM.cost(8, 100)
Cost(rounds=3, volume_bytes=700, reduced_bytes=700)
"""

from __future__ import annotations

from labkit.algorithms.reduce_scatter_block import recursive_halving

__all__ = ["ALGORITHM"]

ALGORITHM = recursive_halving.ALGORITHM.taken_as("reduce_scatter")
