"""Allreduce in two levels: inside nodes, among their leaders, inside nodes again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from labkit.algorithms.allreduce._team import into_recv
from labkit.registry import Cost
from labkit.schedule import Group, Step, whole
from labkit.schedule.doubling import ceil_log2
from labkit.schedule.group import Team, leaders, members
from labkit.schedule.phases import down, up
from labkit.schedule.trees import knomial

__all__ = ["cost_in_two_levels", "in_two_levels"]


def in_two_levels(group: Group, node: int, between: Callable[[Team], Iterator[Step]]) -> Iterator[Step]:
    """Yield the way up the nodes' binomial trees, the leaders' phase, and the way down."""
    inside = members(group, node)
    tree = knomial(inside.largest, 2)
    yield into_recv(group)
    yield from up(inside, tree, lambda part: whole("recv"), lambda part, turn: whole("incoming"))
    yield from between(leaders(group, node))
    yield from down(inside, tree, lambda part: whole("recv"), is_posted=False)


def cost_in_two_levels(ranks: int, n_bytes: float, node: int, between: Callable[[int, float], Cost]) -> Cost:
    """Return the cost of the leaders' phase, ``between(nodes, n_bytes)``, and of the ways up and down."""
    levels = ceil_log2(min(node, ranks))
    phase = between(-(-ranks // node), n_bytes)
    return Cost(
        phase.rounds + 2 * levels,
        phase.volume_bytes + 2 * levels * n_bytes,
        phase.reduced_bytes + levels * n_bytes,
    )
