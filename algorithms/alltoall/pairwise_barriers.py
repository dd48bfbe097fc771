"""Alltoall by pairwise exchange, with a barrier before each round.

In round i = 1, ..., p - 1 rank r exchanges with r XOR i if p is a power of two; otherwise it sends to
r + i and receives from r - i (mod p). Before each round, and before every rank
takes over its own block, all meet in a barrier (dissemination).

**Cost**: ``(p-1 + p*ceil(log2 p))*alpha + (p-1)*n*beta``.

**Requires**: nothing; any number of ranks.

**Properties**: rounds cannot overlap, so that no port has two messages at once: for long messages in networks
in which contention costs more than the barriers.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(8, 100)
Cost(rounds=31, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.alltoall._exchange import exchange

__all__ = ["ALGORITHM"]

ALGORITHM = exchange("pairwise_barriers", is_paired=True, barriers="every")
