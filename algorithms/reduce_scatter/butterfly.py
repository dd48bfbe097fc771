"""Reduce-scatter with blocks of any sizes, by a butterfly.

The schedule is that of the butterfly for equal blocks; only the sizes differ. They are bound
at run time: every rank knows all of them.

**Cost**: with equal blocks of n bytes that of equal blocks (k rounds for p = 2**k,
``k*alpha + (p-1)*n*(beta + gamma)``); otherwise each round lasts as long as
its largest message.

**Requires**: nothing; any number of ranks, any counts, zero included, any associative operator.

**Properties**: operands in rank order.

**Reference**: J. L. Träff: An improved algorithm for (non-commutative) reduce-scatter with an application.
EuroPVM/MPI 2005, LNCS 3666. doi:10.1007/11557265_20

>>> ALGORITHM.cost(8, 100)
Cost(rounds=3, volume_bytes=700, reduced_bytes=700)
"""

from __future__ import annotations

from labkit.algorithms.reduce_scatter_block import butterfly

__all__ = ["ALGORITHM"]

ALGORITHM = butterfly.ALGORITHM.taken_as("reduce_scatter")
