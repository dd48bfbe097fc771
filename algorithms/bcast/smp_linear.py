"""Broadcast in two levels, both of them pipelined chains.

A node is `node` consecutive ranks; its leader is its first rank, or the root. The leaders' tree and the
nodes' trees are one tree: a rank serves the leader below it before the rank of its own node.

**Cost**: with m segments ``(d + (m-1)*c) * (alpha + n/m*beta)``: d messages until the last rank has the first
segment, the longest way through both levels; c is the number of the root's children, inside its node and
outside.

**Requires**: nothing; any number of ranks, any root. Parameters: `node` (ranks of a node), `segments` (m),
`ahead` (segments whose receive is posted ahead: 1).

**Properties**: between nodes the message goes once for each node, and nobody serves more than two
others; the longest pipeline is that of all nodes and one node's ranks.

**Reference**: P. Patarasuk, X. Yuan, A. Faraj: Techniques for pipelined broadcast on ethernet switched
clusters. JPDC 68(6), 2008. doi:10.1016/j.jpdc.2007.11.003

>>> ALGORITHM.cost(32, 800)
Cost(rounds=24, volume_bytes=2400.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.bcast._tree import in_two_levels
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = in_two_levels("smp_linear", lambda size: trees.chains(size, 1), is_posted=False)
