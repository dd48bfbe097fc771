"""Broadcast along a k-nomial tree: in each round every holder sends to k - 1 others.

Ranks are numbered from the root on. For the distances d = k**i, the largest first, every number that is a
multiple of k*d sends to those j*d further on, j = k - 1 ... 1.

**Cost**: ``ceil(log_k p)*(k-1) * (alpha + n*beta)`` for powers of k, less where the last subtrees are
missing; with m segments ``(d + (m-1)*c) * (alpha + n/m*beta)`` with d the messages until the last
rank has the first segment, and c the root's children.

**Requires**: nothing; any number of ranks, any root. Parameters: `radix` (k), `segments` (m),
`ahead` (segments whose receive is posted ahead: 1).

**Properties**: with k = 2 the binomial tree, with k = p the flat one; a larger k is better where a sender's
start-ups overlap.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(16, 100)
Cost(rounds=6, volume_bytes=600.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.bcast._tree import pipelined
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = pipelined("knomial", trees.knomial, segments=1, radix=4)
