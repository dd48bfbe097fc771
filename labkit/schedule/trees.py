"""Trees over the numbers 0 .. size - 1: who is whose child, and what a message costs on its way.

The top is 0 where nothing else is said; children are in the order in which they are served.

The trees of `kary`, `knomial` and `flat` grow: that of fewer numbers is the beginning of the larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from labkit.schedule.doubling import bine_labels, floor_power_of_two

__all__ = ["Tree", "bine", "chains", "flat", "in_order", "kary", "knomial", "tree_of", "two_level"]

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree over 0 .. size - 1.

    `parent` (array of int64, shape (size,)): The parent of each number (-1 for the top).
    `children` (array of int64, shape (n_slots, size)): The children of each number in the order in which it
        sends to them, or -1.
    """

    parent: Numbers
    children: Numbers

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def slots(self) -> int:
        """The largest number of children."""
        return len(self.children)

    @cached_property
    def top(self) -> int:
        """The number without a parent."""
        return int(np.flatnonzero(self.parent < 0)[0])

    @cached_property
    def _order(self) -> list[int]:
        """The numbers, parents before children."""
        order = [self.top]
        for number in order:
            order += [int(c) for c in self.children[:, number] if c >= 0]
        return order

    def down(self, parts: int = 1) -> int:
        """Return after how many messages, one after another, the last part has reached the last number.

        Every number passes on the first part to all children, then the second one, ... Where the top has
        the most children, it is the bottleneck: the parts follow each other at its pace.
        """
        arrival = np.zeros(len(self), np.int64)
        for number in self._order:
            present = self.children[:, number]
            present = present[present >= 0]
            arrival[present] = arrival[number] + 1 + np.arange(len(present))
        return int(arrival.max()) + (parts - 1) * int((self.children[:, self.top] >= 0).sum())

    def up(self, parts: int = 1) -> int:
        """Return after how many messages, one after another, the top has the last part of all others.

        Every number takes the first part of its children in reverse order of sending, then the second, ...
        """
        done = np.zeros(len(self), np.int64)
        for number in reversed(self._order):
            for child in self.children[::-1, number]:
                if child >= 0:
                    done[number] = max(done[number], done[child]) + 1
        return int(done[self.top]) + (parts - 1) * int((self.children[:, self.top] >= 0).sum())


def tree_of(parent: Numbers, key: Numbers | None = None) -> Tree:
    """Return the tree of these parents; children in the order of their keys (default: of their numbers)."""
    size = len(parent)
    order = np.arange(size) if key is None else np.argsort(key, kind="stable")
    slot = np.zeros(size, np.int64)
    counts = np.zeros(size, np.int64)
    for number in order.tolist():
        if parent[number] >= 0:
            slot[number] = counts[parent[number]]
            counts[parent[number]] += 1
    children = np.full((int(counts.max(initial=0)), size), -1, np.int64)
    inner = np.flatnonzero(parent >= 0)
    children[slot[inner], parent[inner]] = inner
    return Tree(parent, children)


@lru_cache(maxsize=64)
def knomial(size: int, radix: int, is_rising: bool = False) -> Tree:
    """Return the k-nomial tree: a number's parent lacks its lowest digit (base `radix`) that is not zero.

    The largest subtrees are served first, of equal ones the last or, if `is_rising`, the first before the
    others. Radix 2 is the binomial tree; radix >= size the flat one.

    Examples
    --------
    >>> knomial(9, 3).parent
    array([-1,  0,  0,  0,  3,  3,  0,  6,  6])
    """
    radix = max(radix, 2)
    number = np.arange(size)
    weight = np.ones(size, np.int64)
    for _ in range(size.bit_length()):
        grows = (number > 0) & (number % (weight * radix) == 0)
        weight = np.where(grows, weight * radix, weight)
    parent = np.where(number == 0, -1, number - number // weight % radix * weight)
    return tree_of(parent, key=-weight * size + (number if is_rising else -number))


@lru_cache(maxsize=64)
def kary(size: int, radix: int) -> Tree:
    """Return the k-ary tree, level by level, neighbors in a level below different parents.

    So the subtrees below 0 are those of equal numbers modulo `radix`, and differ by one at most.

    Examples
    --------
    >>> kary(8, 2).parent
    array([-1,  0,  0,  1,  2,  1,  2,  3])
    """
    parent = np.full(size, -1, np.int64)
    first, width = 0, 1
    while first + width < size:
        begin = first + width
        end = min(begin + width * radix, size)
        parent[begin:end] = first + (np.arange(begin, end) - begin) % width
        first, width = begin, width * radix
    return tree_of(parent)


@lru_cache(maxsize=64)
def heap(size: int, radix: int) -> Tree:
    """Return the k-ary tree numbered as a heap: below i stand ``radix * i + 1 ... radix * i + radix``.

    Examples
    --------
    >>> heap(8, 2).parent
    array([-1,  0,  0,  1,  1,  2,  2,  3])
    """
    return tree_of((np.arange(size) - 1) // radix)


@lru_cache(maxsize=64)
def chains(size: int, count: int) -> Tree:
    """Return `count` chains below 0, of consecutive numbers, the longer ones first.

    Examples
    --------
    >>> chains(6, 2).parent
    array([-1,  0,  1,  2,  0,  4])
    """
    parent = np.arange(-1, size - 1)
    if size > 1:
        count = min(count, size - 1)
        length, longer = divmod(size - 1, count)
        begins = 1 + np.arange(count) * length + np.minimum(np.arange(count), longer)
        parent[begins] = 0
    return tree_of(parent)


@lru_cache(maxsize=64)
def bine(size: int) -> Tree:
    """Return the Bine tree: the binomial one whose ranks are numbered by `bine_labels`.

    Numbers beyond the largest power of two are served last, by the number so far below.

    Examples
    --------
    >>> bine(8).parent
    array([-1,  0,  3,  0,  3,  4,  7,  0])
    """
    core = floor_power_of_two(size)
    label = bine_labels(core)
    number_of = np.argsort(label)
    lowest = label & -label
    parent = np.arange(size) - core
    parent[:core] = np.where(label == 0, -1, number_of[label - lowest])
    key = np.arange(size)
    key[:core] = -lowest
    return tree_of(parent, key)


def flat(size: int, radix: int = 0) -> Tree:
    """Return the flat tree: all below 0."""
    return knomial(size, max(size, 2))


@lru_cache(maxsize=64)
def in_order(size: int) -> Tree:
    """Return the binary tree with the last number at the top whose subtrees are ranges before it.

    Below the top of a range stand the tops of the halves of the rest, the nearer half first on the way up.

    Examples
    --------
    >>> in_order(6).parent
    array([ 2,  2,  5,  4,  5, -1])
    """
    parent = np.full(size, -1, np.int64)
    ranges = [(0, size)]
    for begin, end in ranges:
        rest = end - 1 - begin
        middle = begin + (rest + 1) // 2
        for first, last in ((begin, middle), (middle, end - 1)):
            if last > first:
                parent[last - 1] = end - 1
                ranges.append((first, last))
    return tree_of(parent)


@lru_cache(maxsize=64)
def two_level(
    size: int, node: int, inner: Callable[[int], Tree], outer: Callable[[int], Tree], root: int = 0
) -> Tree:
    """Return a tree over ranks: `outer` over the leaders of nodes, then `inner` below every leader.

    A node is `node` consecutive ranks, its leader the first one, or the root. `inner` must be a tree that
    grows.

    Examples
    --------
    >>> two_level(8, 4, flat, flat, root=5).parent
    array([ 5,  0,  0,  0,  5, -1,  5,  5])
    """
    nodes, home = -(-size // node), root // node
    upper, lower = outer(nodes), inner(node)
    leader = np.arange(nodes) * node
    leader[home] = root
    rank = np.arange(size)
    begin = rank // node * node
    count = np.minimum(node, size - begin)
    number = (rank - leader[rank // node]) % count
    parent = begin + (lower.parent[number] + leader[rank // node] - begin) % count
    key = size + _slots(lower)[number]
    turned = (np.arange(nodes) - home) % nodes
    above = upper.parent[turned]
    parent[leader] = np.where(above < 0, -1, leader[(above + home) % nodes])
    key[leader] = _slots(upper)[turned]
    return tree_of(parent, key)


def _slots(tree: Tree) -> Numbers:
    """Return each number's place among its siblings."""
    place = np.zeros(len(tree), np.int64)
    for slot, children in enumerate(tree.children):
        place[children[children >= 0]] = slot
    return place
