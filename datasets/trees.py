"""Search trees of unknown shape: queens on a board, a knapsack, and a random tree that is very uneven.

A tree has a `root` and ``expand(node, best)``, which returns the value of a node and its children. Values are
added up, or the largest one is wanted (`is_maximum`); then subtrees that cannot exceed `best` are left out.
A node costs `flops` operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from labkit.errors import DataError

__all__ = ["Knapsack", "Queens", "RandomTree", "Tree"]

_MASK = 2**64 - 1


class Tree(Protocol):
    """What can be searched."""

    is_maximum: bool
    flops: float

    @property
    def root(self) -> Any:
        """The node from which all others are found."""

    def expand(self, node: Any, best: int) -> tuple[int, list[Any]]:
        """Return the value of a node, and its children."""


@dataclass(frozen=True)
class Queens:
    """Count the ways to put n queens on a board of n rows so that none attacks another.

    Examples
    --------
    >>> Queens(4).expand(Queens(4).root, 0)[1][0]
    (1, 1, 0, 2)
    """

    n: int
    is_maximum: bool = field(default=False, init=False)
    flops: float = 2e4

    def __post_init__(self) -> None:
        """Refuse boards without rows."""
        if self.n < 1:
            raise DataError(f"n must be at least 1, got {self.n}", code="out-of-range")

    @property
    def root(self) -> tuple[int, int, int, int]:
        """Return the empty board: rows that are done, columns and diagonals under attack."""
        return 0, 0, 0, 0

    def expand(self, node: tuple[int, int, int, int], best: int) -> tuple[int, list[Any]]:
        """Return 1 for a full board, and the boards with one queen more."""
        row, columns, left, right = node
        if row == self.n:
            return 1, []
        children = []
        free = ~(columns | left | right) & (1 << self.n) - 1
        while free:
            queen = free & -free
            free ^= queen
            children.append((row + 1, columns | queen, (left | queen) >> 1, (right | queen) << 1))
        return 0, children


@dataclass(frozen=True)
class Knapsack:
    """Find the most profit of items whose weights fit into a capacity, by branch and bound.

    Items are tried in the order of profit per weight. No subtree is better than its profit so far and the
    rest of the capacity filled with the best items, of which the last may be cut.

    Examples
    --------
    >>> Knapsack((2, 3, 4), (3, 4, 6), 5).expand((0, 5, 0), 0)
    (0, [(1, 5, 0), (1, 3, 3)])
    """

    weights: Sequence[int]
    profits: Sequence[int]
    capacity: int
    is_maximum: bool = field(default=True, init=False)
    flops: float = 2e4

    def __post_init__(self) -> None:
        """Refuse items without weight, and lists of different lengths."""
        if len(self.weights) != len(self.profits):
            raise DataError(
                f"each item has a weight and a profit, got {len(self.weights)} and {len(self.profits)}",
                code="count-mismatch",
            )
        if any(weight < 1 for weight in self.weights) or any(profit < 0 for profit in self.profits):
            raise DataError("weights must be at least 1 and profits at least 0", code="out-of-range")

    @cached_property
    def items(self) -> list[tuple[int, int]]:
        """Weights and profits, by profit per weight."""
        pairs = zip(self.weights, self.profits, strict=True)
        return sorted(pairs, key=lambda item: (-item[1] / item[0], item))

    @property
    def root(self) -> tuple[int, int, int]:
        """Return the number of items that are decided, the room that is left, and the profit."""
        return 0, self.capacity, 0

    def expand(self, node: tuple[int, int, int], best: int) -> tuple[int, list[Any]]:
        """Return the profit, and what is decided with the next item left out and put in."""
        k, room, profit = node
        if k == len(self.items) or self._most(k, room, profit) <= best:
            return profit, []
        weight, more = self.items[k]
        put_in = [(k + 1, room - weight, profit + more)] if weight <= room else []
        return profit, [(k + 1, room, profit), *put_in]

    def _most(self, k: int, room: int, profit: int) -> int:
        for weight, more in self.items[k:]:
            if weight > room:
                return profit + more * room // weight
            room, profit = room - weight, profit + more
        return profit


@dataclass(frozen=True)
class RandomTree:
    """Count the nodes of a random tree: the root has many children, any other node two or none.

    With `q` near a half most subtrees have a single node, and a few have thousands.

    References
    ----------
    S. Olivier et al.: UTS: an unbalanced tree search benchmark. LCPC 2006,
    doi:10.1007/978-3-540-72521-3_18. The numbers are those of the splitmix64 generator.

    Examples
    --------
    >>> len(RandomTree(5, 0.4).expand(RandomTree(5, 0.4).root, 0)[1])
    5
    """

    children: int
    q: float
    seed: int = 0
    is_maximum: bool = field(default=False, init=False)
    flops: float = 2e4

    def __post_init__(self) -> None:
        """Refuse trees that may not end."""
        if not 0 <= self.q < 0.5:
            raise DataError(f"q must be at least 0 and below 0.5, got {self.q}", code="out-of-range")

    @property
    def root(self) -> tuple[int, int]:
        """Return the depth and the random bits of the root."""
        return 0, self.seed

    def expand(self, node: tuple[int, int], best: int) -> tuple[int, list[Any]]:
        """Return 1, and the children."""
        depth, bits = node
        if depth:
            count = 2 if bits < self.q * 2**64 else 0
        else:
            count = self.children
        return 1, [(depth + 1, _mixed(bits * 2654435761 + child + 1)) for child in range(count)]


def _mixed(bits: int) -> int:
    """Return 64 bits that look random."""
    bits = (bits + 0x9E3779B97F4A7C15) & _MASK
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & _MASK
    return bits ^ bits >> 31
