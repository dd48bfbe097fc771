"""Alltoallv with a window: a new pair of messages is posted for each one that is done.

The schedule is that of the alltoall of the same name; only the sizes differ, and they are bound at run time.

**Cost**: with equal blocks of n bytes ``(p-1) * (alpha + n*beta)``. Otherwise each round lasts as long as its
largest message.

**Requires**: nothing; any number of ranks (parameter: `outstanding`), any counts, zero included.

**Properties**: no rank uses a size that MPI does not tell it: a rank knows what it sends to and receives
from each other rank. An empty block is a message of 0 bytes.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(8, 100)
Cost(rounds=7, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.alltoall import linear_sync

__all__ = ["ALGORITHM"]

ALGORITHM = linear_sync.ALGORITHM.taken_as("alltoallv")
