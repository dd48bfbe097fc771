"""Broadcast along a binary tree, in segments: every rank passes each segment to at most two others.

Ranks are numbered from the root on, level by level; see `labkit.schedule.trees.kary`, or, with the switch
`heap`, `labkit.schedule.trees.heap`: neighbors in a level are then below the same parent.

**Cost**: with m segments and p = 2**d - 1 ranks the last one has the first segment after 2(d-1) messages,
and another one every two: ``2*(d + m - 2) * (alpha + n/m*beta)``; in general with the latest first arrival
for 2(d-1).

**Requires**: nothing; any number of ranks, any root. Parameters: `segments` (m), `ahead`
(segments whose receive is posted ahead: 1), `heap`.

**Properties**: log2(p) deep, and yet a pipeline: for messages of middle length. Inner ranks send the
message twice, leaves never.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(7, 800)
Cost(rounds=18, volume_bytes=1800.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.bcast._tree import pipelined
from labkit.schedule import trees

__all__ = ["ALGORITHM"]


def _tree(size: int, heap: int) -> trees.Tree:
    return (trees.heap if heap else trees.kary)(size, 2)


ALGORITHM = pipelined("binary", _tree, heap=0)
