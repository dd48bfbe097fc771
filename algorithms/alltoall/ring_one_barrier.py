"""Alltoall by shifts, after a barrier.

In round i = 1, ..., p - 1 rank r sends to r + i and receives from r - i (mod p), whatever p is. Before the
first round all meet in a barrier (dissemination).

**Cost**: ``(p-1+ceil(log2 p))*alpha + (p-1)*n*beta``.

**Requires**: nothing; any number of ranks.

**Properties**: the barrier keeps early ranks from disturbing the rounds of late ones; it pays where ranks
come at different times and messages are long.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(8, 100)
Cost(rounds=10, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.alltoall._exchange import exchange

__all__ = ["ALGORITHM"]

ALGORITHM = exchange("ring_one_barrier", is_paired=False, barriers="one")
