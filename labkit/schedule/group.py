"""The group: what an algorithm sees while it describes its schedule.

An algorithm is written once, vectorised over an array of ranks. The simulator asks for all ranks at
once; a real process asks for itself alone. The same lines answer both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labkit.errors import ScheduleError
from labkit.schedule.step import ANY_LABEL, NO_BUFFER, NO_STEP, Column, Ints, Kind, Section, Step

__all__ = ["Group"]

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
        """Send and receive at once (MPI_Sendrecv): post both, then wait for both."""
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
                "build it from group.ranks"
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
                f"the schedule is made, with temporaries=[{section.buffer!r}]"
            )
        return (
            self._numbers[section.buffer],
            self._field(section.first, chosen),
            self._field(section.length, chosen),
            self._field(section.run, chosen),
            self._field(section.stride, chosen),
        )
