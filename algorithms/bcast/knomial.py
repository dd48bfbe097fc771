"""Broadcast along a k-nomial tree: in each round every holder sends to k - 1 others.

Ranks are numbered from the root on. For the distances d = k**i, the largest first, every number that is a
multiple of k*d sends to those j*d further on, j = k - 1 ... 1. With the switch `by_level` it sends to them
in rising order, and sends to nearer ones only when these have the message.

**Cost**: ``ceil(log_k p)*(k-1) * (alpha + n*beta)`` for powers of k, less where the last subtrees are
missing; with m segments ``(d + (m-1)*c) * (alpha + n/m*beta)`` with d the messages until the last
rank has the first segment, and c the root's children.

**Requires**: nothing; any number of ranks, any root. Parameters: `radix` (k), `segments` (m),
`ahead` (segments whose receive is posted ahead: 1; by level none), `by_level`.

**Properties**: with k = 2 the binomial tree, with k = p the flat one; a larger k is better where a sender's
start-ups overlap.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(16, 100)
Cost(rounds=6, volume_bytes=600.0, reduced_bytes=0.0)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from labkit.algorithms.bcast._tree import AHEAD, cost_of, rounds_below
from labkit.registry import Algorithm, Cost, in_segments
from labkit.schedule import Group, Section, Step, block, trees
from labkit.schedule.doubling import log_ceil
from labkit.schedule.group import Team, everyone

__all__ = ["ALGORITHM", "cost", "levels", "rounds"]


def rounds(
    group: Group, radix: int = 4, segments: int = 1, ahead: int = AHEAD, by_level: int = 0
) -> Iterator[Step]:
    """Yield the segments' way down the tree."""
    if by_level:
        team = everyone(group, group.root)
        parts = [levels(team, max(radix, 2), block("data", part)) for part in range(segments)]
        return itertools.chain.from_iterable(parts)
    return rounds_below(group, trees.knomial(group.size, radix), segments, ahead)


def levels(team: Team, radix: int, what: Section) -> Iterator[Step]:
    """Yield the way of one message down, level by level: the sends of a level are waited for together."""
    number, size = team.number, team.largest
    yield team.recv(what, trees.knomial(size, radix).parent[number], where=number > 0)
    for unit in [radix**level for level in reversed(range(log_ceil(size, radix)))]:
        is_sender = number % (unit * radix) == 0
        for hop in range(unit, unit * radix, unit):
            yield team.isend(what, number + hop, where=is_sender & (number + hop < size))
        yield team.wait(where=is_sender & (number + unit < size))


def cost(
    ranks: int, n_bytes: float, radix: int = 4, segments: int = 1, ahead: int = AHEAD, by_level: int = 0
) -> Cost:
    """Return the exact cost when the number of segments divides the message."""
    return cost_of(trees.knomial(ranks, radix, by_level > 0), n_bytes, segments)


ALGORITHM = Algorithm(
    "knomial",
    "bcast",
    schedule=rounds,
    cost=cost,
    parts=in_segments(1),
    parameters={"radix": 4, "segments": 1, "ahead": AHEAD, "by_level": 0},
)
