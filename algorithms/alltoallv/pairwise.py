"""Alltoallv by pairwise exchange: in each round everyone sends to one and receives from one.

The schedule is that of the pairwise alltoall; only the sizes differ, and they are bound at run time.

**Cost**: p - 1 rounds. With equal blocks of n bytes ``(p-1) * (alpha + n*beta)``; otherwise each round
lasts as long as its largest message.

**Requires**: nothing; any number of ranks, any counts, zero included.

**Properties**: no rank uses a size that MPI does not tell it: a rank knows what it sends to
and receives from each other rank.

**Empty blocks**: a block of no elements is a message of 0 bytes, with its overheads and its latency, so a
sparse exchange costs as many start-ups as a full one: the messages do not depend on the counts. Some MPI
libraries leave such messages out; a program that is to profit from empty blocks everywhere sends its own
messages (as radix sort does with ``exchange="messages"``).

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> ALGORITHM.cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.alltoall import pairwise

__all__ = ["ALGORITHM"]

ALGORITHM = pairwise.ALGORITHM.taken_as("alltoallv")
