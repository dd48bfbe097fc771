"""The group: what an algorithm sees while it describes its schedule.

An algorithm is written once, vectorized over an array of ranks. The simulator asks for all ranks at
once; a real process asks for itself alone. The same lines answer both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labkit.errors import ScheduleError
from labkit.schedule.step import ANY_LABEL, NO_BUFFER, NO_STEP, Column, Ints, Kind, Section, Step

__all__ = ["Group", "Team", "everyone", "leaders", "members"]


Mask = NDArray[np.bool_] | bool | None
_NOTHING: tuple[int, int, int, int, int] = (NO_BUFFER, 0, 0, 0, 1)


class Group:
    """The ranks that are being described, and the verbs to describe them.

    Parameters
    ----------
    ranks : array of int64, shape (n,)
        The ranks asked for (all of them, or just one).
    size : int
        Number of ranks p of the communicator.
    root : int
        The root of a rooted collective.
    commutative : bool
        Whether operands may be combined in any order.
    buffers : sequence of str
        The buffers' names, in the order of their numbers.

    Notes
    -----
    Every verb returns a `Step`; ``where`` picks the ranks that take part. Peers and sections are
    numbers, or arrays along `ranks`.
    """

    def __init__(
        self, ranks: NDArray[np.int64], size: int, root: int, commutative: bool, buffers: tuple[str, ...]
    ) -> None:
        self.ranks = ranks
        self.size = size
        self.root = root
        self.commutative = commutative
        self._numbers = {name: number for number, name in enumerate(buffers)}

    def __contains__(self, rank: int) -> bool:
        return bool(np.any(self.ranks == rank))

    def __bool__(self) -> bool:
        return len(self.ranks) > 0

    def at_root(self, times: int = 1) -> Group:
        """Return the group of the root alone, `times` entries of it (of none if it is not described).

        With ``times > 1`` one verb describes that many operations of the root, in order.
        """
        part = Group(np.full(times, self.root) if self.root in self else self.ranks[:0], *self._binding())
        part._numbers = self._numbers
        return part

    def _binding(self) -> tuple[int, int, bool, tuple[str, ...]]:
        return self.size, self.root, self.commutative, ()

    # -- messages ------------------------------------------------------------------------------
    def send(self, what: Section | None, to: Ints, where: Mask = None) -> Step:
        """Send and go on when the send is complete (MPI_Send)."""
        return self._column(Kind.SEND, where, to, what)

    def isend(self, what: Section | None, to: Ints, where: Mask = None, label: int = 0) -> Step:
        """Post a send; a later `wait` completes it."""
        return self._column(Kind.ISEND, where, to, what, label=label)

    def recv(self, into: Section | None, source: Ints, where: Mask = None) -> Step:
        """Receive and go on when the data is here (MPI_Recv)."""
        return self._column(Kind.RECV, where, source, into)

    def irecv(self, into: Section | None, source: Ints, where: Mask = None, label: int = 0) -> Step:
        """Post a receive; a later `wait` completes it."""
        return self._column(Kind.IRECV, where, source, into, label=label)

    def wait(self, where: Mask = None, label: int = ANY_LABEL) -> Step:
        """Wait for the open requests with this label (default: for all of them)."""
        return self._column(Kind.WAIT, where, -1, None, label=label)

    def sendrecv(
        self, what: Section | None, to: Ints, into: Section | None, source: Ints, where: Mask = None
    ) -> Step:
        """Send and receive at the same time (MPI_Sendrecv): post both, then wait for both."""
        return self.isend(what, to, where) + self.irecv(into, source, where) + self.wait(where)

    # -- local work ------------------------------------------------------------------------------
    def copy(self, source: Section, target: Section, where: Mask = None) -> Step:
        """Copy blocks from one section to another of the same shape."""
        return self._column(Kind.COPY, where, -1, target, source)

    def combine(
        self, source: Section, target: Section, source_first: Mask = True, where: Mask = None
    ) -> Step:
        """Reduce into the target: ``source op target`` if `source_first`, else ``target op source``.

        The order matters for operators that do not commute; `source_first` may differ by rank.
        """
        first: Ints = (
            np.asarray(source_first, np.int64)
            if isinstance(source_first, np.ndarray)
            else int(bool(source_first))
        )
        return self._column(Kind.COMBINE, where, -1, target, source, is_source_first=first)

    # -- making columns --------------------------------------------------------------------------
    def _column(
        self,
        kind: Kind,
        where: Mask,
        peer: Ints,
        section: Section | None,
        source: Section | None = None,
        label: int = 0,
        is_source_first: Ints = 0,
    ) -> Step:
        chosen = self._chosen(where)
        ranks = self.ranks if chosen is None else self.ranks[chosen]
        if len(ranks) == 0:
            return NO_STEP
        return Step(
            (
                Column(
                    kind,
                    ranks,
                    self._field(peer, chosen),
                    self._blocks(section, chosen),
                    self._blocks(source, chosen),
                    label,
                    self._field(is_source_first, chosen),
                ),
            )
        )

    def _chosen(self, where: Mask) -> NDArray[np.bool_] | None:
        if where is None or where is True:
            return None
        if isinstance(where, np.ndarray):
            return where
        return np.full(len(self.ranks), bool(where))

    def _field(self, value: Ints, chosen: NDArray[np.bool_] | None) -> Ints:
        if isinstance(value, int):
            return value
        values = np.asarray(value, np.int64)
        if values.ndim == 0:
            return int(values)
        if len(values) != len(self.ranks):
            raise ScheduleError(
                f"an array along the ranks has {len(values)} entries, the group has {len(self.ranks)}; "
                "build it from group.ranks",
                code="count-mismatch",
            )
        return values if chosen is None else values[chosen]

    def _blocks(
        self, section: Section | None, chosen: NDArray[np.bool_] | None
    ) -> tuple[int, Ints, Ints, Ints, Ints]:
        if section is None:
            return _NOTHING
        if section.buffer not in self._numbers:
            raise ScheduleError(
                f"unknown buffer {section.buffer!r}; "
                f"this schedule has {', '.join(self._numbers) or 'none'}; a work buffer is declared where "
                f"the schedule is made, with temporaries=[{section.buffer!r}]",
                code="unknown-name",
            )
        return (
            self._numbers[section.buffer],
            self._field(section.first, chosen),
            self._field(section.length, chosen),
            self._field(section.run, chosen),
            self._field(section.stride, chosen),
        )


# Teams: ranks with new numbers, such as those of a node, a row of a mesh, or the leaders of all nodes.


Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Team:
    """Each described rank's view of its team.

    `number`: The rank's number in its team, from 0 on.
    `size`: Ranks of its team.
    `rank`: ``rank(numbers)``: the ranks that have these numbers in the same team.
    `largest`: Size of the largest team.
    `is_in`: Whether the rank is in a team at all.
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
