"""Broadcast along a k-ary tree, in segments: every rank passes each segment to at most k others.

Ranks are numbered from the root on, level by level; see `labkit.schedule.trees.kary`.

**Cost**: a child in slot s = 0 ... k - 1 has the first segment s + 1 messages after its parent; then the
root's pace counts, min(k, p - 1) messages for each segment: ``(d + (m-1)*min(k, p-1)) * (alpha + n/m*beta)``
with d the latest first arrival, k*log_k(p) about.

**Requires**: nothing; any number of ranks, any root. Parameters: `radix` (k), `segments` (m).

**Properties**: every rank sends to few others, which suits short pipelines in wide machines; k times the
volume of a chain.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(13, 800)
Cost(rounds=27, volume_bytes=2700.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.bcast._tree import cost_of, number_of_segments, rounds_of
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.trees import kary

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, radix: int = 3, segments: int = 8) -> Iterator[Step]:
    """Yield one step for each segment."""
    return rounds_of(group, kary(group.size, radix), segments)


def cost(ranks: int, n_bytes: float, radix: int = 3, segments: int = 8) -> Cost:
    """Return the exact cost when the number of segments divides the message."""
    return cost_of(kary(ranks, radix), n_bytes, segments)


ALGORITHM = Algorithm(
    "kary",
    "bcast",
    schedule=rounds,
    cost=cost,
    parts=number_of_segments,
    parameters={"radix": 3, "segments": 8},
)
