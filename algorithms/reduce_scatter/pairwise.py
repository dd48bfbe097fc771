"""Reduce-scatter with blocks of any sizes, by pairwise exchange.

The schedule is that of the pairwise exchange for equal blocks; only the sizes differ. They are bound
at run time: every rank knows all of them.

**Cost**: with equal blocks of n bytes ``(p-1) * (alpha + n*beta + n*gamma)``; otherwise each round
lasts as long as its largest message.

**Requires**: nothing; any number of ranks, any counts, zero included, any associative operator.

**Properties**: operands in rank order; messages go straight to the rank that needs them.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> ALGORITHM.cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=400)
"""

from __future__ import annotations

from labkit.algorithms.reduce_scatter_block import pairwise

__all__ = ["ALGORITHM"]

ALGORITHM = pairwise.ALGORITHM.taken_as("reduce_scatter")
