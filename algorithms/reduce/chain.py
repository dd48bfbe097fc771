"""Reduction along several chains that end at the root, in segments.

The other ranks, numbered from the root on, are cut into `chains` chains of consecutive numbers; sums go from
the end of each to its head, and from there to the root.

**Cost**: with m segments ``(d + (m-1)*c) * (alpha + n/m*beta)``: d messages until the root has the first
one from all of its c = min(chains, p - 1) chains. Combining adds as much as the messages, times gamma, at
most: the next part is received meanwhile.

**Requires**: a commutative operator (the last chain comes first); any number of ranks, any root.
Parameters: `chains`, `segments`.

**Properties**: shorter ways than one chain, a busier root.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(8, 800)
Cost(rounds=32, volume_bytes=3200.0, reduced_bytes=3200.0)
"""

from __future__ import annotations

from labkit.algorithms.reduce._tree import pipelined
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = pipelined("chain", lambda size, chains: trees.chains(size, chains), commutative=True, chains=4)
