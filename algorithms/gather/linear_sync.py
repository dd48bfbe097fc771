"""Gather with an invitation: the root asks one rank after the other for its block.

The root posts a receive, sends an empty message to that rank, which then sends its block, and goes on to the
next one when the block is there. With several segments the first one is a message of its own, the others are
a second one: the root invites the next rank while the second one comes.

**Cost**: ``2(p-1)*alpha + (p-1)*n*beta``; with several segments ``(2p-1)*alpha + (p-1)*n*beta``.

**Requires**: nothing; any number of ranks, any root. Parameter: `segments`.

**Properties**: no message comes before it is wanted, so that nothing piles up at the root: for long blocks.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 100)
Cost(rounds=14, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.registry import Algorithm, Cost, in_segments
from labkit.schedule import Group, Step, block, blocks, whole

__all__ = ["ALGORITHM", "cost", "rounds"]

#: of the first message, for which the root waits before it goes on
_FIRST = 1


def rounds(group: Group, segments: int = 1) -> Iterator[Step]:
    """Yield the others' part, then the root's turns."""
    me, root, rest = group.ranks, group.root, segments - 1
    yield group.recv(None, source=root, where=me != root) + group.send(block("send"), root, where=me != root)
    if rest:
        yield group.send(blocks("send", 1, rest), root, where=me != root)
    yield group.copy(whole("send"), blocks("recv", root * segments, segments), where=me == root)
    top = group.at_root()
    for other in np.delete(np.arange(group.size), root).tolist():
        yield top.irecv(block("recv", other * segments), other, label=_FIRST) + top.send(None, other)
        if rest:
            yield top.irecv(blocks("recv", other * segments + 1, rest), other)
        yield top.wait(label=_FIRST)
    if rest:
        yield top.wait()


def cost(ranks: int, n_bytes: float, segments: int = 1) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(2 * (ranks - 1) + int(segments > 1 and ranks > 1), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "linear_sync",
    "gather",
    schedule=rounds,
    cost=cost,
    parts=in_segments(1),
    parameters={"segments": 1},
)
