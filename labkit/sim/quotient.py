"""The symmetry quotient: two ranks stand for all where all do the same at the same time.

On a star whose ranks have a host each, let all ranks start together, do the same operations in the same
order, and let every message go from rank r to r xor k (or all of them to r + k mod p) with the same bytes
for every r. Then any rank can be renamed into any other without changing machine or schedule, so all clocks
agree, and so do the rates of the messages that all ranks send alike: the max-min solution is unique. What a
host's links carry is then what they carry on a star of two hosts whose ranks exchange the same messages. So
the engine runs these two, and its times are everybody's: O(steps) messages instead of O(steps * ranks).

The conditions are checked on every entry of every step, at some nanoseconds each; a schedule that fails one
is simulated whole. A receive gets the message that its place in the order says, as messages between two
ranks do not overtake: the i-th message a rank sends must be of the same kind (k) as the i-th that it
receives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.schedule.schedule import Schedule
from labkit.schedule.step import Column, Step

__all__ = ["LEAST_RANKS", "Folded", "fold", "machine_of_two"]

#: with fewer ranks there is little to win, and rounding stays that of the whole engine
LEAST_RANKS = 64

_BOTH = np.arange(2)
_SWAPPED = _BOTH[::-1].copy()


class _Broken(Exception):
    """A step that is not the same for all ranks."""


class Folded:
    """A schedule of two ranks, as the kernels read one."""

    def __init__(self, schedule: Schedule) -> None:
        self.size = 2
        self._schedule = schedule
        self._folder = _Folder(schedule.size)
        self.is_broken = False

    def steps(self) -> Iterator[Step]:
        """Yield the steps of two ranks; stop where the symmetry breaks."""
        self._folder = _Folder(self._schedule.size)
        try:
            for step in self._schedule.steps():
                yield Step(tuple(self._folder.column(c) for c in step.columns if len(c.ranks)))
            self._folder.finish()
        except _Broken:
            self.is_broken = True


class _Folder:
    """Checks columns over all ranks, and makes them columns of two."""

    def __init__(self, size: int) -> None:
        self._ranks = np.arange(size)
        #: kinds of messages in the order of their posts
        self._sent: list[tuple[str, int]] = []
        self._received: list[tuple[str, int]] = []

    def column(self, column: Column) -> Column:
        """Return the column of two ranks."""
        if not np.array_equal(column.ranks, self._ranks):
            raise _Broken
        peer: Any = -1
        if column.kind.is_send or column.kind.is_receive:
            kind, k = self._message(column.peer)
            if kind == "shift" and column.kind.is_receive:
                k = len(self._ranks) - k  # what comes from r - k was sent to r + k
            (self._sent if column.kind.is_send else self._received).append((kind, k))
            peer = _BOTH if k == 0 else _SWAPPED
        return Column(
            column.kind, _BOTH, peer, _common(column.section), _common(column.source), column.label, 0
        )

    def _message(self, peer: Any) -> tuple[str, int]:
        """Say how a message's two ranks hang together: r and r xor k, or r and r + k mod p."""
        if not isinstance(peer, np.ndarray):
            raise _Broken
        size, k = len(self._ranks), int(peer[0])
        if not 0 <= k < size:
            raise _Broken
        if k == 0 and np.array_equal(peer, self._ranks):
            return "self", 0
        if size & (size - 1) == 0 and np.array_equal(peer, self._ranks ^ k):
            return ("half" if 2 * k == size else "xor"), k  # r xor p/2 is r + p/2 mod p, too
        if np.array_equal(peer[: size - k], self._ranks[k:]) and np.array_equal(
            peer[size - k :], self._ranks[:k]
        ):
            return "shift", k
        raise _Broken

    def finish(self) -> None:
        """Check that every receive gets what it asks for, and that all messages are of one group."""
        kinds = {kind for kind, _ in self._sent} - {"self", "half"}
        if len(kinds) > 1 or self._sent != self._received:
            raise _Broken


def _common(section: tuple[Any, ...]) -> tuple[int, int, int, int, int]:
    """Return a section's numbers where they are the same for all ranks; where it begins may differ."""
    buffer, first, *others = section
    numbers = []
    for field in others:
        if isinstance(field, np.ndarray):
            if not (field == field[0]).all():
                raise _Broken
            field = field[0]
        numbers.append(int(field))
    begin = int(first[0]) if isinstance(first, np.ndarray) else int(first)
    return (int(buffer), begin, *numbers)  # type: ignore[return-value]


def fold(schedule: Schedule, machine: Any, network: Any, elements: int) -> Folded | None:
    """Return the quotient of a schedule on a machine, None where it is known to have none."""
    if schedule.size < LEAST_RANKS or machine.description.alike_pair() is None:
        return None
    if network.penalties:  # they count how many different hosts a host talks to: here it would be one
        return None
    if schedule.problem.layout == "table" or schedule.problem.at_root:
        return None
    if np.bincount(machine.rank_hosts(schedule.size)).max() > 1:
        return None
    if schedule.problem.layout == "split" and not _is_even(schedule, elements):
        return None
    if schedule.problem.layout == "uniform" and elements % schedule.parts:
        return None
    return Folded(schedule)


def machine_of_two(machine: Any) -> Any:
    """Return the machine with two hosts, a rank on each, for the engine."""
    return machine.description.alike_pair().build([0, 1])


def _is_even(schedule: Schedule, elements: int) -> bool:
    """Whether all blocks of every buffer have the same number of elements."""
    counts: NDArray[np.int64] = np.unique(schedule.n_blocks_of(range(schedule.size)))
    return all(count <= 1 or elements % int(count) == 0 for count in counts)
