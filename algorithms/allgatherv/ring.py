"""Allgatherv around a ring: blocks of different sizes travel from neighbor to neighbor.

The schedule is that of the ring allgather; only the sizes differ, and they are bound at run time.

**Cost**: p - 1 rounds. With equal blocks of n bytes ``(p-1) * (alpha + n*beta)``; otherwise the largest block
sets the pace, at most ``(p-1) * (alpha + max*beta)``.

**Requires**: nothing; any number of ranks, any counts, zero included.

**Properties**: no rank uses a size that MPI does not tell it: all know all counts.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> ALGORITHM.cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.allgather import ring

__all__ = ["ALGORITHM"]

ALGORITHM = ring.ALGORITHM.taken_as("allgatherv")
