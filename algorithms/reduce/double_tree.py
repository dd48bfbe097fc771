"""Reduction up two binary trees at once: the double tree's broadcast backwards.

Each half of the message goes up its own tree, in segments, in the broadcast's rounds in reverse order; every
rank combines what comes with its own before it passes the sum on. A rank that is inner in one tree is a leaf
of the other one, and in every round it sends at most one segment and receives at most one.

**Cost**: with m segments in each half, and L rounds until everybody has the first segments of both in the
broadcast, about 2*log2 p: ``(2(m-1) + L) * (alpha + n/2m*beta)``. Combining adds as much as the messages,
times gamma, at most.

**Requires**: a commutative operator; any number of ranks, any root. Parameter: `segments` (of a half).

**Properties**: nearly ``n*beta`` for long messages, as a pipeline, but after logarithmic time; twice the
bandwidth of one binary tree.

**Reference**: P. Sanders, J. Speck, J. L. Träff: Two-tree algorithms for full bandwidth broadcast, reduction
and scan. Parallel Computing 35(12), 2009. doi:10.1016/j.parco.2009.09.001

>>> cost(8, 800)
Cost(rounds=20, volume_bytes=1000.0, reduced_bytes=1000.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.bcast.double_tree import children_of, due, number_of_parts, two_trees
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, Temporary, block, whole
from labkit.schedule.group import everyone
from labkit.schedule.step import NO_STEP

__all__ = ["ALGORITHM", "TEMPORARIES", "collect", "cost", "rounds"]

TEMPORARIES = tuple(Temporary(name, like="send") for name in ("partial", "incoming"))


def rounds(group: Group, segments: int = 8) -> Iterator[Step]:
    """Yield two steps for each round: messages, and what is combined."""
    yield group.copy(whole("send"), whole("partial"))
    yield from collect(group, group.root, segments, "partial")
    yield group.copy(whole("partial"), whole("recv"), where=group.ranks == group.root)


def collect(group: Group, root: int, segments: int, buffer: str) -> Iterator[Step]:
    """Yield the rounds in which the segments of a buffer go up both trees to the root, and are combined."""
    p = group.size
    if p == 1:
        return
    team = everyone(group, root)
    number = team.number
    parents, arrival = two_trees(p)
    children, when = children_of(parents, arrival)

    for turn in reversed(range(int(arrival.max()) + 2 * segments - 1)):
        step, combined = NO_STEP, NO_STEP
        for tree in range(2):
            segment, is_due = due(turn, arrival[tree][number], segments)
            what = block(buffer, tree * segments + segment)
            step += team.isend(what, parents[tree][number], where=is_due & (number > 0))
            for child, first in zip(children[tree], when[tree], strict=True):
                segment, is_due = due(turn, first[number], segments)
                part, comes = tree * segments + segment, is_due & (child[number] > 0)
                step += team.irecv(block("incoming", part), child[number], where=comes)
                combined += team.combine(
                    block("incoming", part), block(buffer, part), source_first=False, where=comes
                )
        yield step
        yield team.wait()
        yield combined


def cost(ranks: int, n_bytes: float, segments: int = 8) -> Cost:
    """Return the cost: as many messages, and as many combinations, one after another; they may overlap."""
    if ranks == 1:
        return Cost(0, 0.0)
    turns = int(two_trees(ranks)[1].max()) + 2 * segments - 1
    part = n_bytes / (2 * segments)
    # Of three ranks, those that combine in the first turn do not in the second, nor do their parents.
    combined = turns - (ranks == 3)
    return Cost(turns, turns * part, combined * part, is_bound=True)


ALGORITHM = Algorithm(
    "double_tree",
    "reduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=number_of_parts,
    temporaries=TEMPORARIES,
    parameters={"segments": 8},
)
