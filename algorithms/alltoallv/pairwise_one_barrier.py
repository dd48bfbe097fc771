"""Alltoallv by pairwise exchange, after a barrier.

The schedule is that of the alltoall of the same name; only the sizes differ, and they are bound at run time.

**Cost**: with equal blocks of n bytes ``(p-1+ceil(log2 p))*alpha + (p-1)*n*beta``. Otherwise each round
lasts as long as its largest message.

**Requires**: nothing; any number of ranks, any counts, zero included.

**Properties**: no rank uses a size that MPI does not tell it: a rank knows what it sends to and receives
from each other rank. An empty block is a message of 0 bytes.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(8, 100)
Cost(rounds=10, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.alltoall import pairwise_one_barrier

__all__ = ["ALGORITHM"]

ALGORITHM = pairwise_one_barrier.ALGORITHM.taken_as("alltoallv")
