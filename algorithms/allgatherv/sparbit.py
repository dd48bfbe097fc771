"""Allgatherv by sparbit: Bruck's rounds backwards, blocks received where they belong.

The schedule is that of the allgather of the same name; only the sizes differ, and they are bound at run
time.

**Cost**: with equal blocks of n bytes ``ceil(log2 p)*alpha + (p-1)*n*beta``. Otherwise each round lasts as
long as its largest message.

**Requires**: nothing; any number of ranks, any counts, zero included.

**Properties**: no rank uses a size that MPI does not tell it: all know all counts.

**Reference**: W. J. S. Loch, G. P. Koslovski: Sparbit: a new logarithmic-cost and data locality-aware MPI
allgather algorithm. SBAC-PAD 2021. doi:10.48550/arXiv.2109.08751

>>> ALGORITHM.cost(8, 100)
Cost(rounds=3, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.allgather import sparbit

__all__ = ["ALGORITHM"]

ALGORITHM = sparbit.ALGORITHM.taken_as("allgatherv")
