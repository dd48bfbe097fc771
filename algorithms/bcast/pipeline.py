"""Broadcast along a chain, in segments: every rank passes a segment on while the next one arrives.

Ranks are numbered from the root on; number k receives from k - 1 and posts each segment to k + 1 without
waiting for it, so that it is ready for the next one (two segments are under way at every rank).

**Cost**: with m segments p - 2 messages until the first one is at the last but one rank, m more:
``(p + m - 2) * (alpha + n/m*beta)``, for every p > 1.

**Requires**: nothing; any number of ranks, any root. Parameters: `segments` (m), `ahead`
(segments whose receive is posted ahead: 1).

**Properties**: every port carries the message once: nearly ``n*beta`` for long messages and few ranks; the
best m is sqrt((p-2)*n*beta/alpha). Only neighbors talk.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(5, 800)
Cost(rounds=11, volume_bytes=1100.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.bcast._tree import pipelined
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = pipelined("pipeline", lambda size: trees.chains(size, 1))
