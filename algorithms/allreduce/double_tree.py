"""Allreduce up two binary trees and down again: both ways, everyone is inner in one tree at most.

Each half of the message is combined up its own tree to rank 0, in segments, and goes down the same tree; see
the reduction and the broadcast of the same name.

**Cost**: with m segments in each half, and L rounds until everybody has the first segments of both in the
broadcast, about 2*log2 p: twice ``(2(m-1) + L) * (alpha + n/2m*beta)``. Combining adds as much as half of the
messages, times gamma, at most.

**Requires**: a commutative operator; any number of ranks. Parameter: `segments` (of a half).

**Properties**: nearly ``2*n*beta`` for long messages, as the ring, but after logarithmic time; all ranks get
the result of the same combinations.

**Reference**: P. Sanders, J. Speck, J. L. Träff: Two-tree algorithms for full bandwidth broadcast, reduction
and scan. Parallel Computing 35(12), 2009. doi:10.1016/j.parco.2009.09.001

>>> cost(8, 800)
Cost(rounds=40, volume_bytes=2000.0, reduced_bytes=1000.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.bcast.double_tree import number_of_parts, spread
from labkit.algorithms.reduce import double_tree
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, whole

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, segments: int = 8) -> Iterator[Step]:
    """Yield the way up, then the way down."""
    yield group.copy(whole("send"), whole("recv"))
    yield from double_tree.collect(group, 0, segments, "recv")
    yield from spread(group, 0, segments, "recv")


def cost(ranks: int, n_bytes: float, segments: int = 8) -> Cost:
    """Return the cost: the reduction's, and as many messages again."""
    up = double_tree.cost(ranks, n_bytes, segments)
    return Cost(2 * up.rounds, 2 * up.volume_bytes, up.reduced_bytes, is_bound=up.is_bound)


ALGORITHM = Algorithm(
    "double_tree",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=number_of_parts,
    temporaries=("incoming",),
    parameters={"segments": 8},
)
