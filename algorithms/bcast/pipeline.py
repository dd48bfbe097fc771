"""Broadcast along a chain, in segments: every rank passes a segment on while the next one arrives.

Ranks are numbered from the root on; number k receives from k - 1 and posts each segment to k + 1 without
waiting for it, so that it is ready for the next one (two segments are under way at every rank).

**Cost**: with m segments p - 2 messages until the first one is at the last but one rank, m more:
``(p + m - 2) * (alpha + n/m*beta)``, for every p > 1.

**Requires**: nothing; any number of ranks, any root. Parameter: `segments` (m).

**Properties**: every port carries the message once: nearly ``n*beta`` for long messages and few ranks; the
best m is sqrt((p-2)*n*beta/alpha). Only neighbours talk.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(5, 800)
Cost(rounds=11, volume_bytes=1100.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.bcast._tree import cost_of, number_of_segments, rounds_of
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.trees import chains

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, segments: int = 8) -> Iterator[Step]:
    """Yield one step for each segment."""
    return rounds_of(group, chains(group.size, 1), segments)


def cost(ranks: int, n_bytes: float, segments: int = 8) -> Cost:
    """Return the exact cost when the number of segments divides the message."""
    return cost_of(chains(ranks, 1), n_bytes, segments)


ALGORITHM = Algorithm(
    "pipeline",
    "bcast",
    schedule=rounds,
    cost=cost,
    parts=number_of_segments,
    parameters={"segments": 8},
)
