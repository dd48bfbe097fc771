"""Broadcasts along a tree: what the algorithms that differ in their tree only have in common."""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.phases import down
from labkit.schedule.team import everyone
from labkit.schedule.trees import Tree

__all__ = ["cost_of", "number_of_segments", "rounds_below", "rounds_of"]


def rounds_of(group: Group, tree: Tree, segments: int = 1) -> Iterator[Step]:
    """Yield the message's way down a tree that is numbered from the root on, segment by segment."""
    yield from down(everyone(group, group.root), tree, lambda part: block("data", part), segments)


def rounds_below(group: Group, tree: Tree, segments: int = 1, is_posted: bool = True) -> Iterator[Step]:
    """Yield the message's way down a tree over ranks, with the root at its top."""
    yield from down(everyone(group), tree, lambda part: block("data", part), segments, is_posted)


def cost_of(tree: Tree, n_bytes: float, segments: int = 1) -> Cost:
    """Return the cost: the longest way of the first segment, then the pace of the root."""
    rounds = tree.down(segments)
    return Cost(rounds, rounds * n_bytes / segments)


def number_of_segments(ranks: int, segments: int = 8) -> int:
    """Return the number of segments, whatever the number of ranks."""
    return segments
