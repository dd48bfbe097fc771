"""Alltoall of two processes: one exchange.

Each rank sends its block for the other one and receives the other one's.

**Cost**: one round of one block of n bytes: ``alpha + n*beta``.

**Requires**: at most two ranks.

**Properties**: the special case that Open MPI keeps apart.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> ALGORITHM.cost(2, 100)
Cost(rounds=1, volume_bytes=100, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.alltoall._exchange import exchange

__all__ = ["ALGORITHM"]

ALGORITHM = exchange("two_process", is_paired=True, max_ranks=2)
