"""Alltoall by shifts.

In round i = 1, ..., p - 1 rank r sends to r + i and receives from r - i (mod p), whatever p is.

**Cost**: p - 1 rounds of one block of n bytes: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks.

**Properties**: minimal volume, each block travels once; no work buffer. On a ring of ranks the messages of a
round all go equally far.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(8, 100)
Cost(rounds=7, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.alltoall._exchange import exchange

__all__ = ["ALGORITHM"]

ALGORITHM = exchange("ring", is_paired=False)
