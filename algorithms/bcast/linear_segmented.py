"""Broadcast by the root itself, in segments: the first one to all, then the second one to all, ...

**Cost**: the root's port is busy for p - 1 messages a segment: ``m*(p-1) * (alpha + n/m*beta)``.

**Requires**: nothing; any number of ranks, any root. Parameters: `segments` (m), `ahead`
(segments whose receive is posted ahead: 1).

**Properties**: no faster than in one piece, but all ranks can begin to work on the first segments early.

**Reference**: P. Patarasuk, X. Yuan, A. Faraj: Techniques for pipelined broadcast on ethernet switched
clusters. JPDC 68(6), 2008. doi:10.1016/j.jpdc.2007.11.003

>>> ALGORITHM.cost(5, 800)
Cost(rounds=32, volume_bytes=3200.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.bcast._tree import pipelined
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = pipelined("linear_segmented", trees.flat)
