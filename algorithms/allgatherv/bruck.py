"""Allgatherv by Bruck's algorithm: everyone passes all it has to ever farther ranks.

The schedule is that of the allgather of the same name; only the sizes differ, and they are bound at run
time.

**Cost**: with equal blocks of n bytes ``ceil(log2 p)*alpha + (p-1)*n*beta`` (radix 2). Otherwise each round
lasts as long as its largest message.

**Requires**: nothing; any number of ranks (parameter: `radix`), any counts, zero included.

**Properties**: no rank uses a size that MPI does not tell it: all know all counts.

**Reference**: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all
communications in multiport message-passing systems. IEEE TPDS 8(11), 1997. doi:10.1109/71.642949

>>> ALGORITHM.cost(8, 100)
Cost(rounds=3, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.allgather import bruck

__all__ = ["ALGORITHM"]

ALGORITHM = bruck.ALGORITHM.taken_as("allgatherv")
