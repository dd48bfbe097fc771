"""Allgatherv as gather and broadcast: everything goes to rank 0 and back.

The schedule is that of the allgather of the same name; only the sizes differ, and they are bound at run
time.

**Cost**: with equal blocks of n bytes ``2L*alpha + (p-1 + L*p)*n*beta`` with L = ceil(log2 p). Otherwise
each round lasts as long as its largest message.

**Requires**: nothing; any number of ranks, any counts, zero included.

**Properties**: no rank uses a size that MPI does not tell it: all know all counts.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> ALGORITHM.cost(8, 100)
Cost(rounds=6, volume_bytes=3100, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.allgather import gather_bcast

__all__ = ["ALGORITHM"]

ALGORITHM = gather_bcast.ALGORITHM.taken_as("allgatherv")
