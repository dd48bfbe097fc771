"""Allgather in two levels: what its variants have in common. A node's blocks are one stretch of ``recv``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.schedule import Group, Section, Step, block, blocks
from labkit.schedule.doubling import doublings
from labkit.schedule.group import members
from labkit.schedule.step import Ints

__all__ = ["collect", "collect_in_one_go", "stretch"]


def stretch(group: Group, node: int, number: Ints) -> Section:
    """Return the blocks of a node."""
    first = np.asarray(number) * node
    return blocks("recv", first, np.minimum(node, group.size - first))


def collect(group: Group, node: int) -> Iterator[Step]:
    """Yield a gather of every node's blocks at its leader, up a binomial tree."""
    me, inside = group.ranks, members(group, node)
    number, size = inside.number, inside.size
    yield group.copy(block("send"), block("recv", me))
    for distance in doublings(inside.largest):
        is_child = number % (2 * distance) == distance
        is_parent = (number % (2 * distance) == 0) & (number + distance < size)
        mine, theirs = np.minimum(distance, size - number), np.minimum(distance, size - number - distance)
        yield inside.send(blocks("recv", me, mine), number - distance, where=is_child)
        yield inside.recv(blocks("recv", me + distance, theirs), number + distance, where=is_parent)


def collect_in_one_go(group: Group, node: int) -> Iterator[Step]:
    """Yield a gather of every node's blocks at its leader, to whom all send."""
    me, inside = group.ranks, members(group, node)
    yield group.copy(block("send"), block("recv", me))
    yield inside.send(block("recv", me), 0, where=inside.number > 0)
    for number in range(1, inside.largest):
        is_there = (inside.number == 0) & (number < inside.size)
        yield inside.irecv(block("recv", me + number), number, where=is_there)
    yield inside.wait(where=(inside.number == 0) & (np.asarray(inside.size) > 1))
