"""Broadcast in two levels, both of them pipelined binary trees.

A node is `node` consecutive ranks; its leader is its first rank, or the root. The leaders' tree and the
nodes' trees are one tree, both numbered as heaps: a rank serves the leaders below it before the ranks of its
own node, one after another.

**Cost**: with m segments ``(d + (m-1)*c) * (alpha + n/m*beta)``: d messages until the last rank has the first
segment, the longest way through both levels; c is the number of the root's children, inside its node and
outside.

**Requires**: nothing; any number of ranks, any root. Parameters: `node` (ranks of a node), `segments` (m),
`ahead` (segments whose receive is posted ahead: 1).

**Properties**: between nodes the message goes once for each node, and nobody serves more than four
others; segments follow one another through both levels.

**Reference**: P. Patarasuk, X. Yuan, A. Faraj: Techniques for pipelined broadcast on ethernet switched
clusters. JPDC 68(6), 2008. doi:10.1016/j.jpdc.2007.11.003

>>> ALGORITHM.cost(32, 800)
Cost(rounds=34, volume_bytes=3400.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.bcast._tree import in_two_levels
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = in_two_levels("smp_binary", lambda size: trees.heap(size, 2), is_posted=False)
