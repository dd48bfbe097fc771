"""Alltoall by shifts, with light barriers between the rounds.

In round i = 1, ..., p - 1 rank r sends to r + i and receives from r - i (mod p), whatever p is. Between two
rounds everybody tells the next sender, by an empty message, that it is ready.

**Cost**: ``(2p-3)*alpha + (p-1)*n*beta`` (p > 1).

**Requires**: nothing; any number of ranks.

**Properties**: no message meets a receiver that is busy in the round before, at the price of one start-up,
not of a barrier.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> ALGORITHM.cost(8, 100)
Cost(rounds=13, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.alltoall._exchange import exchange

__all__ = ["ALGORITHM"]

ALGORITHM = exchange("ring_light_barriers", is_paired=False, barriers="light")
