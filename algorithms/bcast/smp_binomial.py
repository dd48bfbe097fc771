"""Broadcast in two levels, both of them binomial trees.

A node is `node` consecutive ranks; its leader is its first rank, or the root. The leaders' tree and the
nodes' trees are one tree: a rank serves the leaders below it before the ranks of its own node.

**Cost**: with m segments ``(d + (m-1)*c) * (alpha + n/m*beta)``: d messages until the last rank has the first
segment, the longest way through both levels; c is the number of the root's children, inside its node and
outside.

**Requires**: nothing; any number of ranks, any root. Parameters: `node` (ranks of a node), `segments` (m),
`ahead` (segments whose receive is posted ahead: 1).

**Properties**: between nodes the message goes once for each node.

**Reference**: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting
hierarchy in parallel computer networks to optimize collective operation performance. IPDPS 2000.
doi:10.1109/IPDPS.2000.846009

>>> ALGORITHM.cost(32, 800)
Cost(rounds=5, volume_bytes=4000.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.bcast._tree import in_two_levels
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = in_two_levels("smp_binomial", lambda size: trees.knomial(size, 2), segments=1, is_posted=False)
