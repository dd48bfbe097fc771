"""Teams: ranks with new numbers, such as those of a node, a row of a mesh, or the leaders of all nodes.

Phases of an algorithm are written for a team, once: `labkit.schedule.phases`. All teams of one kind (every
node, every row) work at the same time and are described at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labkit.schedule.group import Group
from labkit.schedule.step import Ints, Section, Step

__all__ = ["Team", "everyone", "leaders", "members", "node_roots"]

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Team:
    """What every described rank knows of its team.

    Attributes
    ----------
    group : Group
    number : array of int64
        The rank's number in its team, from 0 on.
    size : int or array of int64
        Ranks of its team.
    rank : callable
        ``rank(numbers)``: the ranks that have these numbers in the same team.
    largest : int
        Size of the largest team.
    is_in : bool or array of bool
        Whether the rank is in a team at all.
    """

    group: Group
    number: Numbers
    size: Ints
    rank: Callable[[Ints], Ints]
    largest: int
    is_in: NDArray[np.bool_] | bool = True

    def send(self, what: Section | None, to: Ints, where: NDArray[np.bool_] | bool = True) -> Step:
        """Send to a number of the team; `where` picks members, and nobody else takes part."""
        return self.group.send(what, self._peer(to), self.chosen(where))

    def isend(
        self, what: Section | None, to: Ints, where: NDArray[np.bool_] | bool = True, label: int = 0
    ) -> Step:
        """Post a send to a number of the team."""
        return self.group.isend(what, self._peer(to), self.chosen(where), label)

    def recv(self, into: Section | None, source: Ints, where: NDArray[np.bool_] | bool = True) -> Step:
        """Receive from a number of the team."""
        return self.group.recv(into, self._peer(source), self.chosen(where))

    def irecv(
        self, into: Section | None, source: Ints, where: NDArray[np.bool_] | bool = True, label: int = 0
    ) -> Step:
        """Post a receive from a number of the team."""
        return self.group.irecv(into, self._peer(source), self.chosen(where), label)

    def sendrecv(
        self,
        what: Section | None,
        to: Ints,
        into: Section | None,
        source: Ints,
        where: NDArray[np.bool_] | bool = True,
    ) -> Step:
        """Send to one number of the team and receive from another."""
        return self.group.sendrecv(what, self._peer(to), into, self._peer(source), self.chosen(where))

    def wait(self, where: NDArray[np.bool_] | bool = True, label: int = -1) -> Step:
        """Wait for the open requests with this label, or all."""
        return self.group.wait(self.chosen(where), label)

    def combine(
        self,
        source: Section,
        target: Section,
        source_first: NDArray[np.bool_] | bool = True,
        where: NDArray[np.bool_] | bool = True,
    ) -> Step:
        """Combine two sections at some members."""
        return self.group.combine(source, target, source_first, self.chosen(where))

    def chosen(self, where: NDArray[np.bool_] | bool) -> NDArray[np.bool_]:
        """Return the mask along the group of the members that `where` picks."""
        return np.broadcast_to(np.asarray(where) & self.is_in, self.group.ranks.shape).copy()

    def _peer(self, number: Ints) -> Ints:
        return np.broadcast_to(self.rank(number), self.group.ranks.shape)


def everyone(group: Group, top: int = 0) -> Team:
    """Return the team of all ranks, numbered from `top` on."""
    p = group.size
    return Team(group, (group.ranks - top) % p, p, lambda number: (number + top) % p, p)


def node_roots(group: Group, node: int, root: int = 0) -> Callable[[Ints], Ints]:
    """Return the function from a node's number to its leader: its first rank, or the root of all."""
    return lambda number: np.where(np.asarray(number) == root // node, root, np.asarray(number) * node)


def members(group: Group, node: int, root: int = 0) -> Team:
    """Return the teams of the nodes: `node` consecutive ranks each, numbered from their leaders on."""
    me, p = group.ranks, group.size
    first = me // node * node
    size = np.minimum(node, p - first)
    turn = np.where(first == root // node * node, root % node, 0)
    return Team(
        group,
        (me - first - turn) % size,
        size,
        lambda number: first + (number + turn) % size,
        min(node, p),
    )


def leaders(group: Group, node: int, root: int = 0) -> Team:
    """Return the team of the nodes' leaders, numbered from the root's node on."""
    me, p = group.ranks, group.size
    nodes, top = -(-p // node), root // node
    leader_of = node_roots(group, node, root)
    return Team(
        group,
        (me // node - top) % nodes,
        nodes,
        lambda number: leader_of((np.asarray(number) + top) % nodes),
        nodes,
        is_in=me == leader_of(me // node),
    )
