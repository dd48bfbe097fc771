"""Broadcast down two binary trees at once: everyone is inner in one tree at most, so that all ports work.

Each half of the message goes down its own tree over all ranks but the root, in segments. The first tree
numbers them in order, so that odd numbers are leaves; the second one is its mirror image, or is shifted by
one where a mirror would keep the parity: there the others are leaves. Both edges into a rank, and both out
of it, get different colors, 0 and 1, and an edge is used in rounds of its color only: in every round a rank
receives at most one segment and sends at most one.

**Cost**: with m segments in each half, and L rounds until everybody has the first segments of both, about
2*log2 p: ``(2(m-1) + L) * (alpha + n/2m*beta)``.

**Requires**: nothing; any number of ranks, any root. Parameter: `segments` (of a half).

**Properties**: nearly ``n*beta`` for long messages, as a pipeline, but after logarithmic time; twice the
bandwidth of one binary tree.

**Reference**: P. Sanders, J. Speck, J. L. Träff: Two-tree algorithms for full bandwidth broadcast, reduction
and scan. Parallel Computing 35(12), 2009. doi:10.1016/j.parco.2009.09.001

>>> cost(8, 800)
Cost(rounds=20, volume_bytes=1000.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.group import everyone
from labkit.schedule.step import NO_STEP

__all__ = ["ALGORITHM", "children_of", "cost", "due", "number_of_parts", "rounds", "spread", "two_trees"]

Numbers = NDArray[np.int64]
#: tree and lower end
Edge = tuple[int, int]


def number_of_parts(ranks: int, segments: int = 8) -> int:
    """Return the number of segments of both halves."""
    return 2 * segments


def _in_order(size: int) -> Numbers:
    """Return the parents of the binary tree over 1 ... size in order; the top's is 0."""
    parent = np.zeros(size + 1, np.int64)
    todo = [(1, size, 0)]
    while todo:
        low, high, above = todo.pop()
        if low > high:
            continue
        top = _most_even(low, high)
        parent[top] = above
        todo += [(low, top - 1, top), (top + 1, high, top)]
    return parent


def _most_even(low: int, high: int) -> int:
    """Return the number of low ... high with the most factors 2."""
    bit = 1 << (high.bit_length() - 1)
    while high // bit * bit < low:
        bit >>= 1
    return high // bit * bit


@lru_cache(maxsize=16)
def two_trees(p: int) -> tuple[Numbers, Numbers]:
    """Return parents and the rounds of first segments, of shape (2, p): by tree and number."""
    size = p - 1
    first = _in_order(size)
    numbers = np.arange(p)
    to = size + 1 - numbers if size % 2 == 0 else numbers % max(size, 1) + 1
    to[0] = 0
    second = np.zeros(p, np.int64)
    second[to] = to[first]
    parents = np.stack([first, second])
    color = _colors(parents)
    arrival = np.full((2, p), -1, np.int64)
    for tree in range(2):
        for number in _from_the_top(parents[tree]):
            after = arrival[tree, parents[tree, number]] + 1
            arrival[tree, number] = after + (after + color[tree, number]) % 2
    return parents, arrival


def _from_the_top(parent: Numbers) -> list[int]:
    below: dict[int, list[int]] = {}
    for number in range(1, len(parent)):
        below.setdefault(int(parent[number]), []).append(number)
    order = list(below.get(0, []))
    for number in order:
        order += below.get(number, [])
    return order


def _colors(parents: Numbers) -> Numbers:
    """Color the edges, by tree and lower end: different into one number, different out of one number.

    An edge has one rival at each end at most, so the rivals form paths and cycles; the cycles are even.
    """
    p = parents.shape[1]
    rivals: dict[Edge, list[Edge]] = {(tree, v): [(1 - tree, v)] for tree in (0, 1) for v in range(1, p)}
    out: dict[int, list[Edge]] = {}
    for edge in rivals:
        out.setdefault(int(parents[edge]), []).append(edge)
    for pair in out.values():
        if len(pair) == 2:
            rivals[pair[0]].append(pair[1])
            rivals[pair[1]].append(pair[0])
    color = np.full(parents.shape, -1, np.int64)
    for start in rivals:
        if color[start] >= 0:
            continue
        color[start], todo = 0, deque([start])
        while todo:
            edge = todo.popleft()
            for rival in rivals[edge]:
                if color[rival] < 0:
                    color[rival] = 1 - color[edge]
                    todo.append(rival)
    return color


def rounds(group: Group, segments: int = 8) -> Iterator[Step]:
    """Yield one step for each round."""
    yield from spread(group, group.root, segments, "data")


def spread(group: Group, root: int, segments: int, buffer: str) -> Iterator[Step]:
    """Yield the rounds in which the root's segments of a buffer go down both trees."""
    p = group.size
    if p == 1:
        return
    team = everyone(group, root)
    number = team.number
    parents, arrival = two_trees(p)
    children, when = children_of(parents, arrival)

    for turn in range(int(arrival.max()) + 2 * segments - 1):
        step = NO_STEP
        for tree in range(2):
            segment, is_due = due(turn, arrival[tree][number], segments)
            into = block(buffer, tree * segments + segment)
            step += team.irecv(into, parents[tree][number], where=is_due & (number > 0))
            for child, first in zip(children[tree], when[tree], strict=True):
                segment, is_due = due(turn, first[number], segments)
                what = block(buffer, tree * segments + segment)
                step += team.isend(what, child[number], where=is_due & (child[number] > 0))
        yield step
        yield team.wait()


def due(turn: int, first: Numbers, segments: int) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return the segment due in this round on edges that began in round `first`, and where it exists."""
    since = turn - first
    return since // 2, (since % 2 == 0) & (since >= 0) & (since < 2 * segments)


def children_of(parents: Numbers, arrival: Numbers) -> tuple[Numbers, Numbers]:
    """Return children (0: none) and the rounds of their first segments, both of shape (2, 2, p)."""
    p = parents.shape[1]
    children, when = np.zeros((2, 2, p), np.int64), np.zeros((2, 2, p), np.int64)
    for tree in range(2):
        for number in range(1, p):
            above = parents[tree, number]
            slot = int(children[tree, 0, above] > 0)
            children[tree, slot, above], when[tree, slot, above] = number, arrival[tree, number]
    return children, when


def cost(ranks: int, n_bytes: float, segments: int = 8) -> Cost:
    """Return the exact cost when twice the number of segments divides the message."""
    if ranks == 1:
        return Cost(0, 0.0)
    turns = int(two_trees(ranks)[1].max()) + 2 * segments - 1
    return Cost(turns, turns * n_bytes / (2 * segments))


ALGORITHM = Algorithm(
    "double_tree",
    "bcast",
    schedule=rounds,
    cost=cost,
    parts=number_of_parts,
    parameters={"segments": 8},
)
