"""Allreduce in two levels: inside nodes, among their leaders, inside nodes again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from labkit.algorithms.allreduce._team import into_recv
from labkit.schedule import Group, Step, whole
from labkit.schedule.phases import down, up
from labkit.schedule.team import Team, leaders, members
from labkit.schedule.trees import knomial

__all__ = ["in_two_levels"]


def in_two_levels(group: Group, node: int, between: Callable[[Team], Iterator[Step]]) -> Iterator[Step]:
    """Yield the way up the nodes' binomial trees, the leaders' phase, and the way down."""
    inside = members(group, node)
    tree = knomial(inside.largest, 2)
    yield into_recv(group)
    yield from up(inside, tree, lambda part: whole("recv"), lambda part, turn: whole("incoming"))
    yield from between(leaders(group, node))
    yield from down(inside, tree, lambda part: whole("recv"), is_posted=False)
