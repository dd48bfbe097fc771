"""Broadcast by the root itself, in segments: the first one to all, then the second one to all, ...

**Cost**: the root's port is busy for p - 1 messages a segment: ``m*(p-1) * (alpha + n/m*beta)``.

**Requires**: nothing; any number of ranks, any root. Parameter: `segments` (m).

**Properties**: no faster than in one piece, but all ranks can begin to work on the first segments early.

**Reference**: P. Patarasuk, X. Yuan, A. Faraj: Techniques for pipelined broadcast on ethernet switched
clusters. JPDC 68(6), 2008. doi:10.1016/j.jpdc.2007.11.003

>>> cost(5, 800)
Cost(rounds=32, volume_bytes=3200.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.bcast._tree import cost_of, number_of_segments, rounds_of
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.trees import flat

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, segments: int = 8) -> Iterator[Step]:
    """Yield one step for each segment."""
    return rounds_of(group, flat(group.size), segments)


def cost(ranks: int, n_bytes: float, segments: int = 8) -> Cost:
    """Return the exact cost when the number of segments divides the message."""
    return cost_of(flat(ranks), n_bytes, segments)


ALGORITHM = Algorithm(
    "linear_segmented",
    "bcast",
    schedule=rounds,
    cost=cost,
    parts=number_of_segments,
    parameters={"segments": 8},
)
