"""Reduction up a k-ary tree, in segments.

Ranks are numbered from the root on, level by level; everyone combines what its children, up to k, send with
its own operand and passes the sum on, segment by segment.

**Cost**: with m segments ``(d + (m-1)*min(k, p-1)) * (alpha + n/m*beta)``: d messages until the first one
is done. Combining adds as much as the messages, times gamma, at most: the next part is received meanwhile.

**Requires**: a commutative operator; any number of ranks, any root. Parameters: `radix` (k), `segments`.

**Properties**: flatter than the binary tree; k times the volume of a chain at inner ranks.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(8, 800)
Cost(rounds=25, volume_bytes=2500.0, reduced_bytes=2500.0)
"""

from __future__ import annotations

from labkit.algorithms.reduce._tree import pipelined
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = pipelined("kary", trees.kary, commutative=True, radix=3)
