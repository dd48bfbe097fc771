"""Allreduce in two levels: up binomial trees inside nodes and between leaders, and down again.

A node is `node` consecutive ranks, led by its first one. Both levels form one tree, in which sums go up to
rank 0, segment by segment, and the result down.

**Cost**: with m = 1 segments and N nodes of c ranks ``2L * (alpha + n*beta) + L*n*gamma``, L = ceil(log2 c) +
ceil(log2 N); in general m segments follow each other at the pace of rank 0, up and then down.

**Requires**: nothing; any number of ranks, any associative operator. Parameters: `node`, `segments`.

**Properties**: between nodes there are two messages a node; operands in rank order. With segments,
receiving and combining overlap, so that the sum of the cost is an upper bound.

**Reference**: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting
hierarchy in parallel computer networks to optimize collective operation performance. IPDPS 2000.
doi:10.1109/IPDPS.2000.846009

>>> cost(32, 800)
Cost(rounds=10, volume_bytes=8000.0, reduced_bytes=4000.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost, in_segments
from labkit.schedule import Group, Step, Temporary, block
from labkit.schedule.group import everyone
from labkit.schedule.phases import down, up
from labkit.schedule.trees import Tree, knomial, two_level

__all__ = ["ALGORITHM", "cost", "rounds"]


def _tree(size: int) -> Tree:
    """Return the tree of a node, and that of the leaders."""
    return knomial(size, 2)


def rounds(group: Group, node: int = 8, segments: int = 1) -> Iterator[Step]:
    """Yield the way up, then the way down."""
    team, tree = everyone(group), two_level(group.size, node, _tree, _tree)
    for part in range(segments):
        yield group.copy(block("send", part), block("recv", part))
    yield from up(
        team,
        tree,
        lambda part: block("recv", part),
        lambda part, turn: block("incoming2" if turn else "incoming", part),
        segments,
        ahead=int(segments > 1),
    )
    yield from down(team, tree, lambda part: block("recv", part), segments, is_posted=False)


def cost(ranks: int, n_bytes: float, node: int = 8, segments: int = 1) -> Cost:
    """Return the exact cost (with several segments a bound) when their number divides the message."""
    tree = two_level(ranks, node, _tree, _tree)
    ups, downs = tree.up(segments), tree.down(segments)
    part = n_bytes / segments
    return Cost(ups + downs, (ups + downs) * part, ups * part, is_bound=segments > 1)


ALGORITHM = Algorithm(
    "smp_binomial",
    "allreduce",
    schedule=rounds,
    cost=cost,
    parts=in_segments(1),
    temporaries=(Temporary("incoming"), Temporary("incoming2")),
    parameters={"node": 8, "segments": 1},
)
