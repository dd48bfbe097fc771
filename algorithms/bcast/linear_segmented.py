"""Broadcast by the root itself, in segments: the first one to all, then the second one to all, ...

With the switch `in_turn` one rank after another gets all its segments.

**Cost**: the root's port is busy for p - 1 messages a segment: ``m*(p-1) * (alpha + n/m*beta)``.

**Requires**: nothing; any number of ranks, any root. Parameters: `segments` (m), `ahead`
(segments whose receive is posted ahead: 1; in turn all are), `in_turn`.

**Properties**: no faster than in one piece, but all ranks can begin to work on the first segments early; in
turn the first rank has the whole message early.

**Reference**: P. Patarasuk, X. Yuan, A. Faraj: Techniques for pipelined broadcast on ethernet switched
clusters. JPDC 68(6), 2008. doi:10.1016/j.jpdc.2007.11.003

>>> cost(5, 800)
Cost(rounds=32, volume_bytes=3200, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.algorithms.bcast._tree import AHEAD, SEGMENTS, rounds_below
from labkit.registry import Algorithm, Cost, in_segments
from labkit.schedule import Group, Step, block, trees

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, segments: int = SEGMENTS, ahead: int = AHEAD, in_turn: int = 0) -> Iterator[Step]:
    """Yield a step for each segment, or the receives of all segments and the root's sends rank by rank."""
    if not in_turn:
        yield from rounds_below(group, trees.flat(group.size), segments, ahead)
        return
    root, is_other = group.root, group.ranks != group.root
    others = np.delete(np.arange(group.size), root)
    for part in range(segments):
        yield group.irecv(block("data", part), root, where=is_other)
    yield group.wait(where=is_other)
    parts = np.tile(np.arange(segments), len(others))
    yield group.at_root(len(parts)).send(block("data", parts), to=np.repeat(others, segments))


def cost(ranks: int, n_bytes: float, segments: int = SEGMENTS, ahead: int = AHEAD, in_turn: int = 0) -> Cost:
    """Return the exact cost for equal segments: all of them leave the root, in whatever order."""
    return Cost((ranks - 1) * segments, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "linear_segmented",
    "bcast",
    schedule=rounds,
    cost=cost,
    parts=in_segments(SEGMENTS),
    parameters={"segments": SEGMENTS, "ahead": AHEAD, "in_turn": 0},
)
