"""Broadcast along a k-ary tree, in segments: every rank passes each segment to at most k others.

Ranks are numbered from the root on, level by level; see `labkit.schedule.trees.kary`.

**Cost**: a child in slot s = 0 ... k - 1 has the first segment s + 1 messages after its parent; then the
root's pace counts, min(k, p - 1) messages for each segment: ``(d + (m-1)*min(k, p-1)) * (alpha + n/m*beta)``
with d the latest first arrival, k*log_k(p) about.

**Requires**: nothing; any number of ranks, any root. Parameters: `radix` (k), `segments` (m),
`ahead` (segments whose receive is posted ahead: 1).

**Properties**: every rank sends to few others, which suits short pipelines in wide machines; k times the
volume of a chain.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(13, 800)
Cost(rounds=27, volume_bytes=2700.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.bcast._tree import pipelined
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = pipelined("kary", trees.kary, radix=3)
