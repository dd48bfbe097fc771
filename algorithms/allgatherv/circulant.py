"""Allgatherv over a circulant graph: blocks of different sizes, gathered in the fewest rounds.

The schedule is that of the allgather; only the sizes differ, and they are bound at run time.

**Cost**: ceil(log2 p) rounds. With equal blocks of n bytes ``ceil(log2 p)*alpha + (p-1)*n*beta``; otherwise
each round lasts as long as its largest message.

**Requires**: nothing; any number of ranks, any counts, zero included.

**Properties**: no rank uses a size that MPI does not tell it: all know all counts.

**Reference**: J. L. Träff: Optimal, non-pipelined reduce-scatter and allreduce algorithms. 2024.
doi:10.48550/arXiv.2410.14234

>>> ALGORITHM.cost(5, 100)
Cost(rounds=3, volume_bytes=400, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.allgather import circulant

__all__ = ["ALGORITHM"]

ALGORITHM = circulant.ALGORITHM.taken_as("allgatherv")
