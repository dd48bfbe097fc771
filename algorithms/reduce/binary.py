"""Reduction up a binary tree, in segments.

Ranks are numbered from the root on, level by level; everyone combines what its two children send with its own
operand and passes the sum on, segment by segment.

**Cost**: with m segments ``(d + 2*(m-1)) * (alpha + n/m*beta)`` (p > 2): d messages until the first one is
done, 2*(log2(p+1) - 1) for full trees. Combining adds as much as the messages, times gamma, at most: the
next part is received meanwhile.

**Requires**: a commutative operator; any number of ranks, any root. Parameter: `segments`.

**Properties**: log2(p) deep, and yet a pipeline.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(8, 800)
Cost(rounds=18, volume_bytes=1800.0, reduced_bytes=1800.0)
"""

from __future__ import annotations

from labkit.algorithms.reduce._tree import pipelined
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = pipelined("binary", lambda size: trees.kary(size, 2), commutative=True)
