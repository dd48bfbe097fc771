"""Broadcasts along a tree: what the algorithms that differ in their tree only have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from labkit.registry import Algorithm, Cost, in_segments
from labkit.schedule import Group, Section, Step, block
from labkit.schedule.group import everyone
from labkit.schedule.phases import down
from labkit.schedule.trees import Tree, two_level

__all__ = ["AHEAD", "SEGMENTS", "cost_of", "in_two_levels", "pipelined", "rounds_below"]

#: segments of a pipeline, how many are received ahead, and ranks of a node, where nothing else is said
SEGMENTS, AHEAD, NODE = 8, 1, 8


def pipelined(
    name: str, tree: Callable[..., Tree], segments: int = SEGMENTS, is_posted: bool = True, **shape: int
) -> Algorithm:
    """Return the broadcast down ``tree(size, **shape)``, numbered from the root on, segment by segment."""

    def rounds(group: Group, segments: int = segments, ahead: int = AHEAD, **values: int) -> Iterator[Step]:
        return rounds_below(group, tree(group.size, **shape | values), segments, ahead, is_posted)

    def cost(ranks: int, n_bytes: float, segments: int = segments, ahead: int = AHEAD, **values: int) -> Cost:
        return cost_of(tree(ranks, **shape | values), n_bytes, segments)

    return _algorithm(name, rounds, cost, shape, segments)


def in_two_levels(
    name: str, tree: Callable[[int], Tree], segments: int = SEGMENTS, is_posted: bool = True
) -> Algorithm:
    """Return the broadcast down a tree over the leaders of nodes, and one over the ranks of every node."""

    def rounds(
        group: Group, segments: int = segments, ahead: int = AHEAD, node: int = NODE
    ) -> Iterator[Step]:
        whole = two_level(group.size, node, tree, tree, group.root)
        return down(everyone(group), whole, _data, segments, is_posted, ahead)

    def cost(
        ranks: int, n_bytes: float, segments: int = segments, ahead: int = AHEAD, node: int = NODE
    ) -> Cost:
        return cost_of(two_level(ranks, node, tree, tree), n_bytes, segments)

    return _algorithm(name, rounds, cost, {"node": NODE}, segments)


def rounds_below(
    group: Group, tree: Tree, segments: int, ahead: int, is_posted: bool = True
) -> Iterator[Step]:
    """Yield the way down a tree that is numbered from the root on."""
    return down(everyone(group, group.root), tree, _data, segments, is_posted, ahead)


def _data(part: int) -> Section:
    return block("data", part)


def cost_of(tree: Tree, n_bytes: float, segments: int) -> Cost:
    """Return the longest way of the first segment, then the pace of the root: exact for equal segments."""
    rounds = tree.down(segments)
    return Cost(rounds, rounds * n_bytes / segments)


def _algorithm(
    name: str,
    rounds: Callable[..., Iterator[Step]],
    cost: Callable[..., Cost],
    shape: dict[str, int],
    segments: int,
) -> Algorithm:
    return Algorithm(
        name,
        "bcast",
        schedule=rounds,
        cost=cost,
        parts=in_segments(segments),
        parameters={**shape, "segments": segments, "ahead": AHEAD},
    )
