"""Gather with an invitation: the root asks one rank after the other for its block.

The root posts a receive, sends an empty message to that rank, which then sends its block, and goes on to the
next one when the block is there.

**Cost**: ``2(p-1)*alpha + (p-1)*n*beta``.

**Requires**: nothing; any number of ranks, any root.

**Properties**: no message comes before it is wanted, so that nothing piles up at the root: for long blocks.
(Open MPI sends a block in two pieces and invites the next rank between them.)

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 100)
Cost(rounds=14, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the others' part, then the root's turns."""
    me, root = group.ranks, group.root
    yield group.recv(None, source=root, where=me != root) + group.send(block("send"), root, where=me != root)
    yield group.copy(block("send"), block("recv", root), where=me == root)
    top = group.at_root()
    for other in np.delete(np.arange(group.size), root).tolist():
        yield top.irecv(block("recv", other), other) + top.send(None, other) + top.wait()


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(2 * (ranks - 1), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("linear_sync", "gather", schedule=rounds, cost=cost)
