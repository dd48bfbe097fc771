"""Allgatherv by neighbor exchange: ranks swap two blocks with their neighbors in turn.

The schedule is that of the allgather of the same name; only the sizes differ, and they are bound at run
time.

**Cost**: with equal blocks of n bytes ``p/2*alpha + (p-1)*n*beta``. Otherwise each round lasts as long as its
largest message.

**Requires**: an even number of ranks, any counts, zero included.

**Properties**: no rank uses a size that MPI does not tell it: all know all counts.

**Reference**: J. Chen, L. Zhang, Y. Zhang, W. Yuan: Performance evaluation of allgather algorithms on
terascale Linux cluster with fast Ethernet. HPC Asia 2005. doi:10.1109/HPCASIA.2005.75

>>> ALGORITHM.cost(8, 100)
Cost(rounds=4, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.allgather import neighbor_exchange

__all__ = ["ALGORITHM"]

ALGORITHM = neighbor_exchange.ALGORITHM.taken_as("allgatherv")
