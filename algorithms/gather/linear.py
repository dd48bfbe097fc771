"""Gather in one go: every rank sends its block to the root, which receives them all.

The root posts all its receives or, with the switch `in_turn`, receives one block after another in rank order.

**Cost**: p - 1 messages through the root's port: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks, any root. Parameter: `in_turn`.

**Properties**: no forwarding and no work buffers, each block travels once; the root's start-ups grow
with p. Ranks need to know their own block's size only, so the vector version is the same schedule.

**Reference**: E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory,
practice, and experience. Concurrency and Computation 19(13), 2007. doi:10.1002/cpe.1206

>>> cost(6, 100)
Cost(rounds=5, volume_bytes=500, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, in_turn: int = 0) -> Iterator[Step]:
    """Yield the root's receives, then everyone's send."""
    me, root = group.ranks, group.root
    others = np.delete(np.arange(group.size), root)
    top = group.at_root(len(others))
    yield (top.recv if in_turn else top.irecv)(block("recv", others), source=others)
    yield group.send(block("send"), to=root, where=me != root)
    yield group.copy(block("send"), block("recv", root), where=me == root) + group.at_root().wait()


def cost(ranks: int, n_bytes: float, in_turn: int = 0) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("linear", "gather", schedule=rounds, cost=cost, parameters={"in_turn": 0})
