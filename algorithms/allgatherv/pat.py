"""Allgatherv by parallel aggregated trees (PAT): far messages first, few blocks in each.

The schedule is that of the allgather of the same name; only the sizes differ, and they are bound at run
time.

**Cost**: with equal blocks that of the allgather. Otherwise each round lasts as long as its largest message.

**Requires**: nothing; any number of ranks, any counts, zero included.

**Properties**: no rank uses a size that MPI does not tell it: all know all counts.

**Reference**: S. Jeaugey: PAT: a new algorithm for all-gather and reduce-scatter operations at scale. 2025.
doi:10.48550/arXiv.2506.20252

>>> ALGORITHM.cost(8, 100)
Cost(rounds=3, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.allgather import pat

__all__ = ["ALGORITHM"]

ALGORITHM = pat.ALGORITHM.taken_as("allgatherv")
