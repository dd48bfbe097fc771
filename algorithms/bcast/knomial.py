"""Broadcast along a k-nomial tree: in each round every holder sends to k - 1 others.

Ranks are numbered from the root on. For the distances d = k**i, the largest first, every number that is a
multiple of k*d sends to those j*d further on, j = k - 1 ... 1.

**Cost**: ``ceil(log_k p)*(k-1) * (alpha + n*beta)`` for powers of k, less where the last subtrees are
missing; with m segments ``(d + (m-1)*c) * (alpha + n/m*beta)`` with d the messages until the last
rank has the first segment, and c the root's children.

**Requires**: nothing; any number of ranks, any root. Parameters: `radix` (k), `segments` (m).

**Properties**: with k = 2 the binomial tree, with k = p the flat one; a larger k is better where a sender's
start-ups overlap.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(16, 100)
Cost(rounds=6, volume_bytes=600.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.bcast._tree import cost_of, rounds_of
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.trees import knomial

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, radix: int = 4, segments: int = 1) -> Iterator[Step]:
    """Yield one step for each segment."""
    return rounds_of(group, knomial(group.size, radix), segments)


def cost(ranks: int, n_bytes: float, radix: int = 4, segments: int = 1) -> Cost:
    """Return the exact cost when the number of segments divides the message."""
    return cost_of(knomial(ranks, radix), n_bytes, segments)


def number_of_segments(ranks: int, segments: int = 1) -> int:
    """Return the number of segments, whatever the number of ranks."""
    return segments


ALGORITHM = Algorithm(
    "knomial",
    "bcast",
    schedule=rounds,
    cost=cost,
    parts=number_of_segments,
    parameters={"radix": 4, "segments": 1},
)
