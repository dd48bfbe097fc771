"""Shared parts of tree searches: expanding nodes, a first set of subtrees, the result of all ranks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit.datasets.trees import Tree
from labkit.errors import DataError
from labkit.program.context import compute

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Expansion", "Searched", "combine", "require_positive", "subtrees"]


class Searched(NamedTuple):
    """What was found.

    Attributes
    ----------
    value : int
        The sum of all nodes' values, or the largest one: the same on all ranks.
    nodes : int
        Expanded by this rank.
    """

    value: int
    nodes: int


class Expansion:
    """A rank's nodes that are to be expanded, and what it has found."""

    def __init__(self, tree: Tree, nodes: list[Any]) -> None:
        self.tree = tree
        self.stack = deque(nodes)
        self.found = self.expanded = 0

    @property
    def best(self) -> int:
        """The largest value that is known: nothing if values are added up."""
        return self.found if self.tree.is_maximum else 0

    def learn(self, best: int) -> None:
        """Use a value that another rank has found."""
        if self.tree.is_maximum:
            self.found = max(self.found, best)

    def expand(self, most: int, oldest_first: bool = False) -> None:
        """Expand up to `most` nodes: the youngest first, which keeps few of them, or the oldest."""
        take = self.stack.popleft if oldest_first else self.stack.pop
        before = self.expanded
        while self.stack and self.expanded - before < most:
            value, children = self.tree.expand(take(), self.best)
            self.expanded += 1
            self.stack.extend(children)
            self.found = max(self.found, value) if self.tree.is_maximum else self.found + value
        compute(flops=self.tree.flops * (self.expanded - before))


def subtrees(tree: Tree, count: int) -> Expansion:
    """Expand the oldest nodes until there are at least `count` to expand, or none."""
    top = Expansion(tree, [tree.root])
    while 0 < len(top.stack) < count:
        top.expand(1, oldest_first=True)
    return top


def combine(comm: Intracomm, search: Expansion) -> Searched:
    """Return the result of all ranks."""
    values = comm.allgather(search.found)
    return Searched(max(values) if search.tree.is_maximum else sum(values), search.expanded)


def require_positive(**given: int) -> None:
    """Refuse numbers below 1."""
    for name, value in given.items():
        if value < 1:
            raise DataError(f"{name} must be at least 1, got {value}", code="out-of-range")
