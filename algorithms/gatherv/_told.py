"""Sizes that ranks tell each other before blocks of any sizes go through trees: messages, and their cost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.gather import _passing
from labkit.registry import Cost
from labkit.schedule import Group, Step, blocks, whole
from labkit.schedule.schedule import COUNT_BYTES
from labkit.schedule.trees import Tree

__all__ = ["counts_down", "counts_up", "down_cost", "node_counts", "tree_counts", "up_cost"]

Numbers = NDArray[np.int64]


def tree_counts(group: Group, radix: int = 4) -> Numbers:
    """Return how many counts a rank of a k-nomial tree holds: those of its subtree, all at the root."""
    return _or_all(group, _passing.subtree_blocks(group, radix))


def node_counts(group: Group, node: int = 8) -> Numbers:
    """Return how many counts a rank of a two-level tree holds: those of its node at its leader."""
    return _or_all(group, _passing.node_blocks(group, node))


def _or_all(group: Group, passing: Numbers) -> Numbers:
    return np.where(group.ranks == group.root, group.size, np.maximum(passing, 1))


def counts_up(group: Group, radix: int) -> Iterator[Step]:
    """Yield the counts' way up a k-nomial tree, as far as the children of the root, which knows them all."""
    is_root = group.ranks == group.root
    for hop in _passing.hops(group, radix):
        child = blocks("counts", hop.distance, hop.n_blocks)
        yield (
            group.send(whole("counts"), hop.parent, where=hop.is_child & (hop.parent != group.root))
            + group.recv(child, hop.child, where=hop.is_parent & ~is_root)
        )


def counts_down(group: Group, radix: int) -> Iterator[Step]:
    """Yield the counts' way down a k-nomial tree, to those that pass blocks on.

    They are told their own, too: their callers may have more room than they are sent.
    """
    mine = _passing.subtree_blocks(group, radix)
    for hop in _passing.hops(group, radix, is_down=True):
        child = blocks("counts", hop.distance, hop.n_blocks)
        yield (
            group.recv(blocks("counts", 0, mine), hop.parent, where=hop.is_child & (mine > 1))
            + group.send(child, hop.child, where=hop.is_parent & (hop.n_blocks > 1))
        )


def up_cost(tree: Tree, n_bytes: float) -> Cost:
    """Return the cost of counts, then blocks of `n_bytes`, up a tree whose numbers grow downwards."""
    return Cost(_up(tree, 1, 0, 0), _up(tree, 0, COUNT_BYTES, n_bytes), is_bound=True)


def down_cost(tree: Tree, n_bytes: float) -> Cost:
    """Return the cost of counts, then blocks of `n_bytes`, down a tree whose numbers grow downwards."""
    return Cost(_down(tree, 1, 0, 0), _down(tree, 0, COUNT_BYTES, n_bytes), is_bound=True)


def _sizes(tree: Tree) -> list[int]:
    sizes = [1] * len(tree)
    for number in range(len(tree) - 1, 0, -1):
        sizes[int(tree.parent[number])] += sizes[number]
    return sizes


def _children(tree: Tree) -> list[list[int]]:
    """Return the children of each number, in the order in which it sends to them."""
    return [[child for child in column if child >= 0] for column in tree.children.T.tolist()] or [[]]


def _up(tree: Tree, message: float, count: float, block: float) -> float:
    sizes, children, p = _sizes(tree), _children(tree), len(tree)
    nothing: list[float] = [0] * p
    counted, told, full = nothing[:], nothing[:], nothing[:]
    for number in range(p - 1, 0, -1):
        for child in reversed(children[number]):
            told[child] = max(counted[number], counted[child]) + message + count * sizes[child]
            counted[number] = told[child]
    for child in children[0]:
        told[child] = counted[child]
    for number in range(p - 1, -1, -1):
        full[number] = told[number]
        for child in reversed(children[number]):
            full[number] = max(full[number], full[child]) + message + block * sizes[child]
    return full[0]


def _down(tree: Tree, message: float, count: float, block: float) -> float:
    sizes, children, p = _sizes(tree), _children(tree), len(tree)
    nothing: list[float] = [0] * p
    told, has = nothing[:], nothing[:]
    last: float = 0
    for number in range(p):
        for child in children[number]:
            if sizes[child] > 1:
                told[number] += message + count * sizes[child]
                told[child] = told[number]
    for number in range(p):
        time = max(has[number], told[number])
        for child in children[number]:
            time = has[child] = max(time, told[child]) + message + block * sizes[child]
        last = max(last, time)
    return last
