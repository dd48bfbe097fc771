"""Broadcast along a split binary tree: each half of the message goes down one half of the tree.

Numbered from the root on, level by level, the numbers below the root's first child are the odd ones, those
below its second child the even ones. The first half of the message goes down to the odd ones, the second
one to the even ones, in segments; then neighbors 2i + 1 and 2i + 2 swap halves. A last number without a
neighbor gets its second half from the root.

**Cost**: with m segments in each half and the latest first arrival d:
``(d + 2(m-1) + 1)*alpha + ((d + 2(m-1))/2m +  1/2)*n*beta`` (p > 2).

**Requires**: nothing; any number of ranks, any root. Parameter: `segments` (of a half).

**Properties**: half of the binary tree's volume through inner ranks, and one exchange more.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 800)
Cost(rounds=19, volume_bytes=1300.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block, blocks
from labkit.schedule.group import everyone
from labkit.schedule.trees import kary

__all__ = ["ALGORITHM", "cost", "rounds"]


def number_of_parts(ranks: int, segments: int = 8) -> int:
    """Return the number of segments of both halves."""
    return 2 * segments


def rounds(group: Group, segments: int = 8) -> Iterator[Step]:
    """Yield the segments' way down, then the exchange of halves."""
    team, p = everyone(group, group.root), group.size
    number, tree = team.number, kary(p, 2)
    half = np.where(number % 2 == 1, 0, segments)
    children = [slot[number] for slot in tree.children]
    has_child = np.any([number < 0, *(child >= 0 for child in children)], axis=0)
    is_inner, is_leaf = has_child & (number > 0), ~has_child & (number > 0)
    yield team.irecv(block("data", half), tree.parent[number], where=is_inner, label=0)
    for part in range(segments):
        if part + 1 < segments:  # double buffering
            following = block("data", half + part + 1)
            yield team.irecv(following, tree.parent[number], where=is_inner, label=(part + 1) % 2)
        yield team.wait(where=is_inner, label=part % 2)
        yield team.recv(block("data", half + part), tree.parent[number], where=is_leaf)
        for slot, child in enumerate(children):
            given = np.where(number == 0, slot * segments, half) + part
            yield team.send(block("data", given), child, where=child >= 0)
    other = np.where(number % 2 == 1, number + 1, number - 1)
    yield team.sendrecv(
        blocks("data", half, segments),
        other,
        blocks("data", segments - half, segments),
        other,
        where=(number > 0) & (other < p),
    )
    is_left = (number == p - 1) & (p % 2 == 0)
    yield team.send(blocks("data", segments, segments), p - 1, where=(number == 0) & (p % 2 == 0))
    yield team.recv(blocks("data", segments, segments), 0, where=is_left)


def cost(ranks: int, n_bytes: float, segments: int = 8) -> Cost:
    """Return the exact cost when twice the number of segments divides the message."""
    messages, swap = kary(ranks, 2).down(segments), int(ranks > 1)
    return Cost(messages + swap, (messages / segments + swap) * n_bytes / 2)


ALGORITHM = Algorithm(
    "split_binary",
    "bcast",
    schedule=rounds,
    cost=cost,
    parts=number_of_parts,
    parameters={"segments": 8},
)
