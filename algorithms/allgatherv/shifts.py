"""Allgatherv by shifts: in each round everyone sends its own block to another rank.

The schedule is that of the allgather of the same name; only the sizes differ, and they are bound at run
time.

**Cost**: with equal blocks of n bytes ``(p-1) * (alpha + n*beta)``. Otherwise each round lasts as long as its
largest message.

**Requires**: nothing; any number of ranks, any counts, zero included.

**Properties**: no rank uses a size that MPI does not tell it: all know all counts.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(8, 100)
Cost(rounds=7, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.allgather import shifts

__all__ = ["ALGORITHM"]

ALGORITHM = shifts.ALGORITHM.taken_as("allgatherv")
