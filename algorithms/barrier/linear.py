"""Barrier by one: everyone reports to rank 0, which lets everyone go.

Rank 0 waits for an empty message from each other rank, then sends one to each.

**Cost**: ``2(p-1) * alpha``, all of them through the ports of rank 0.

**Requires**: nothing; any number of ranks.

**Properties**: the baseline.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 0)
Cost(rounds=14, volume_bytes=0.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the reports, then the releases."""
    me, center = group.ranks, group.root  # a barrier is built with root 0
    others = np.delete(np.arange(group.size), center)
    first = group.at_root(len(others))
    yield group.send(None, center, where=me != center) + group.recv(None, center, where=me != center)
    for verb in (first.irecv, first.isend):
        yield verb(None, others) + group.wait(where=me == center)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: 2(p - 1) messages."""
    return Cost(2 * (ranks - 1))


ALGORITHM = Algorithm("linear", "barrier", schedule=rounds, cost=cost)
