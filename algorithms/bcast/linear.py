"""Broadcast in one go: the root sends the message to every other rank itself.

The root posts p - 1 sends and waits for all; everyone else receives once.

**Cost**: the root's port is busy for p - 1 messages: ``(p - 1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks, any root.

**Properties**: the baseline. It wins only for very few ranks, or on a model in which a sender's start-ups
overlap for free.

**Reference**: E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory,
practice, and experience. Concurrency and Computation 19(13), 2007. doi:10.1002/cpe.1206

>>> cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the receives of all, then the sends of the root."""
    others = np.delete(np.arange(group.size), group.root)
    yield group.recv(block("data"), source=group.root, where=group.ranks != group.root)
    yield group.at_root(len(others)).isend(block("data"), to=others) + group.at_root().wait()


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: p - 1 messages through the root's port."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("linear", "bcast", schedule=rounds, cost=cost)
