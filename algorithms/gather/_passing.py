"""Blocks that pass through ranks on their way to the root of a gather, or from that of a scatter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labkit.schedule import Group
from labkit.schedule.doubling import log_ceil
from labkit.schedule.group import members
from labkit.schedule.step import Ints

__all__ = ["Hop", "hops", "near_first", "node_blocks", "subtree_blocks"]

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Hop:
    """All edges of a k-nomial tree between numbers that are `distance` apart.

    Attributes
    ----------
    distance : int
    is_child, is_parent : array of bool
        Whether a rank is the one or the other end of such an edge.
    parent, child : array of int64
        The rank at the other end.
    n_blocks : array of int64
        How many blocks belong to the child's subtree.
    """

    distance: int
    is_child: Mask
    parent: Ints
    is_parent: Mask
    child: Ints
    n_blocks: Ints


def hops(group: Group, radix: int, is_down: bool = False) -> Iterator[Hop]:
    """Yield the hops of the k-nomial tree below the root: from the leaves up, or from the root down."""
    me, p, k = group.ranks, group.size, max(radix, 2)
    number = (me - group.root) % p
    turns = [(k**i, j) for i in range(log_ceil(p, k)) for j in range(1, k)]
    for unit, j in reversed(turns) if is_down else turns:
        hop, place = j * unit, number % (k * unit)
        yield Hop(
            hop,
            place == hop,
            (me - hop) % p,
            (place == 0) & (number + hop < p),
            (me + hop) % p,
            np.minimum(unit, p - number - hop),
        )


def subtree_blocks(group: Group, radix: int) -> NDArray[np.int64]:
    """Return how many blocks pass through each rank's work buffer (none at leaves and at the root)."""
    number, k = (group.ranks - group.root) % group.size, max(radix, 2)
    span = np.ones_like(number)
    for _ in range(log_ceil(group.size, k)):
        span = np.where((number > 0) & (number % (span * k) == 0), span * k, span)
    sizes = np.minimum(span, group.size - number)
    return np.where((number == 0) | (sizes == 1), 0, sizes)


def node_blocks(group: Group, node: int = 8) -> NDArray[np.int64]:
    """Return how many blocks pass through each rank's work buffer: its node's at leaders."""
    inside = members(group, node, group.root)
    return np.where((inside.number == 0) & (group.ranks != group.root), inside.size, 0)


def near_first(size: int, radix: int, width: int = 1, ranks: int | None = None) -> tuple[int, int]:
    """Return messages and blocks until the last rank has its own, down a k-nomial tree with near ones first.

    Every number serves one subtree after another. A number stands for `width` ranks (the last one for what
    is left of `ranks`), to whom it hands out single blocks at the end.
    """
    k, end = max(radix, 2), ranks or size * width
    hops = [(j * k**i, k**i) for i in range(log_ceil(size, k)) for j in range(1, k)]

    def last(number: int, start: int, counts_blocks: bool) -> int:
        found, at = start, start
        for hop, unit in hops:
            child = number + hop
            if number % (unit * k) == 0 and child < size:
                n_blocks = min((child + unit) * width, end) - child * width
                at += n_blocks if counts_blocks else 1
                found = max(found, last(child, at, counts_blocks))
        return max(found, at + min(width, end - number * width) - 1)

    return last(0, 0, False), last(0, 0, True)
