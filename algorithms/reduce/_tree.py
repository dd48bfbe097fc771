"""Reductions up a tree: what the algorithms that differ in their tree only have in common."""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Cost
from labkit.schedule import Group, Step, Temporary, block, whole
from labkit.schedule.phases import up
from labkit.schedule.team import everyone
from labkit.schedule.trees import Tree

__all__ = ["TEMPORARIES", "cost_of", "number_of_segments", "rounds_below", "rounds_of"]

TEMPORARIES = tuple(Temporary(name, like="send") for name in ("partial", "incoming", "incoming2"))


def rounds_of(group: Group, tree: Tree, segments: int = 1) -> Iterator[Step]:
    """Yield the way up a tree that is numbered from the root on.

    If the operator does not commute, the tree is numbered from rank 0 on, and the result goes to the root.
    """
    yield from rounds_below(group, tree, group.root if group.commutative else 0, segments)


def rounds_below(
    group: Group, tree: Tree, first: int = 0, segments: int = 1, is_in_front: bool = False
) -> Iterator[Step]:
    """Yield the way up a tree whose number 0 is rank `first`, then the result's way to the root.

    Parts follow one another; the next one is received while the last one is combined.
    """
    me, root = group.ranks, group.root
    top = (tree.top + first) % group.size
    yield group.copy(whole("send"), whole("partial"))
    yield from up(
        everyone(group, first),
        tree,
        lambda part: block("partial", part),
        lambda part, turn: block("incoming2" if turn else "incoming", part),
        segments,
        is_overlapped=True,
        is_in_front=is_in_front,
    )
    if top == root:
        yield group.copy(whole("partial"), whole("recv"), where=me == root)
    else:
        yield group.send(whole("partial"), to=root, where=me == top)
        yield group.recv(whole("recv"), source=top, where=me == root)


def cost_of(tree: Tree, n_bytes: float, segments: int = 1) -> Cost:
    """Return the cost: as many messages, and as many combinations, one after another; they may overlap."""
    rounds = tree.up(segments)
    return Cost(rounds, rounds * n_bytes / segments, rounds * n_bytes / segments, is_bound=True)


def number_of_segments(ranks: int, segments: int = 8) -> int:
    """Return the number of segments, whatever the number of ranks."""
    return segments
