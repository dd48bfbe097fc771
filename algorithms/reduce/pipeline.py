"""Reduction along a chain, in segments: every rank adds its operand and passes the sum on.

Number k (counted from the root on) receives from k + 1, combines, and posts the sum to k - 1, segment by
segment; two segments are under way at every rank (double buffering).

**Cost**: ``(p + m - 2) * (alpha + n/m*beta)`` with m segments (p > 1). Combining adds as much
as the messages, times gamma, at most: the next part is received meanwhile.

**Requires**: nothing; any number of ranks, any root, any associative operator. Parameter: `segments`.

**Properties**: every port carries the message once; operands in rank order.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 800)
Cost(rounds=14, volume_bytes=1400.0, reduced_bytes=1400.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.reduce._tree import TEMPORARIES, cost_of, number_of_segments, rounds_of
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, trees

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, segments: int = 8) -> Iterator[Step]:
    """Yield the message's way up, part by part."""
    return rounds_of(group, trees.chains(group.size, 1), segments)


def cost(ranks: int, n_bytes: float, segments: int = 8) -> Cost:
    """Return the cost when the number of segments divides the message."""
    return cost_of(trees.chains(ranks, 1), n_bytes, segments)


ALGORITHM = Algorithm(
    "pipeline",
    "reduce",
    schedule=rounds,
    cost=cost,
    parts=number_of_segments,
    temporaries=TEMPORARIES,
    parameters={"segments": 8},
)
