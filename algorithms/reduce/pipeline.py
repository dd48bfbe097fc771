"""Reduction along a chain, in segments: every rank adds its operand and passes the sum on.

Number k (counted from the root on) receives from k + 1, combines, and posts the sum to k - 1, segment by
segment; two segments are under way at every rank (double buffering).

**Cost**: ``(p + m - 2) * (alpha + n/m*beta)`` with m segments (p > 1). Combining adds as much
as the messages, times gamma, at most: the next part is received meanwhile.

**Requires**: nothing; any number of ranks, any root, any associative operator. Parameters: `segments` (m),
`ahead` (1: the next segment is received while one is combined; more: so many receives are posted).

**Properties**: every port carries the message once; operands in rank order.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(8, 800)
Cost(rounds=14, volume_bytes=1400.0, reduced_bytes=1400.0)
"""

from __future__ import annotations

from labkit.algorithms.reduce._tree import pipelined
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = pipelined("pipeline", lambda size: trees.chains(size, 1))
