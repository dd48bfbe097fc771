"""Broadcast along several chains below the root, in segments.

The other ranks, numbered from the root on, are cut into `chains` chains of consecutive numbers. The root
sends each segment to the heads of all chains in turn; everyone else passes it on.

**Cost**: with m segments and c = min(chains, p - 1) the head of chain j = 0 ... c - 1, of l(j) ranks, has a
segment every c messages: ``(max over j of (j + l(j)) + (m-1)*c) * (alpha + n/m*beta)``; l(j) is (p-1)/c,
rounded up for the first ones and down for the others.

**Requires**: nothing; any number of ranks, any root. Parameters: `chains` (c), `segments` (m),
`ahead` (segments whose receive is posted ahead: 1).

**Properties**: between the pipeline (one chain) and the flat tree (p - 1 chains): shorter ways, a busier
root.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(9, 800)
Cost(rounds=33, volume_bytes=3300.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.bcast._tree import pipelined
from labkit.schedule import trees

__all__ = ["ALGORITHM"]

ALGORITHM = pipelined("chain", lambda size, chains: trees.chains(size, chains), chains=4)
