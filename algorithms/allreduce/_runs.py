"""Runs of neighboring ranks, each with one speaker: so many of them that a power of the radix is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labkit.schedule import Group, Section, Step

__all__ = ["Runs", "core_and_run", "runs_of"]


def core_and_run(ranks: int, radix: int) -> tuple[int, int, int]:
    """Return the largest power of the radix in p, its exponent, and the ranks of the longest run."""
    core, exponent = 1, 0
    while core * radix <= ranks:
        core, exponent = core * radix, exponent + 1
    return core, exponent, -(-ranks // core)


@dataclass(frozen=True)
class Runs:
    """What the described ranks know of their runs.

    Attributes
    ----------
    size, radix : int
        Number of runs, a power of the radix.
    number, place : array of int64
        A rank's run, and its place in the run; who is first speaks for all.
    """

    group: Group
    size: int
    radix: int
    number: NDArray[np.int64]
    place: NDArray[np.int64]

    @property
    def is_first(self) -> NDArray[np.bool_]:
        """Whether a rank speaks for its run."""
        return np.asarray(self.place == 0)

    @property
    def distances(self) -> list[int]:
        """The place values of the runs' numbers: 1, k, k**2, ..."""
        return [self.radix**i for i in range(self.size) if self.radix**i < self.size]

    def first_of(self, number: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first ranks of runs."""
        length, longer = divmod(self.group.size, self.size)
        return np.asarray(number * length + np.minimum(number, longer), np.int64)

    def rank_at(self, distance: int, digit: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the speaker of the run whose number has this digit at this place."""
        mine = self.number // distance % self.radix
        return self.first_of(self.number + (digit - mine) * distance)

    def _others(self) -> Iterator[tuple[int, NDArray[np.bool_], NDArray[np.bool_]]]:
        last = self.first_of(self.number + 1) - self.first_of(self.number)
        for place in range(1, -(-self.group.size // self.size)):
            yield place, self.place == place, self.is_first & (place < last)

    def fold(self, total: Section, incoming: Section) -> Iterator[Step]:
        """Yield the speakers' taking over of the operands of their runs."""
        group = self.group
        for place, is_giver, is_taker in self._others():
            yield group.send(total, group.ranks - place, where=is_giver)
            yield group.recv(incoming, group.ranks + place, where=is_taker)
            yield group.combine(incoming, total, source_first=False, where=is_taker)

    def unfold(self, total: Section) -> Iterator[Step]:
        """Yield the way of the result from the speakers to the others."""
        group = self.group
        for place, is_giver, is_taker in self._others():
            yield group.send(total, group.ranks + place, where=is_taker)
            yield group.recv(total, group.ranks - place, where=is_giver)


def runs_of(group: Group, radix: int) -> Runs:
    """Return the runs of all ranks."""
    core, _, _ = core_and_run(group.size, radix)
    length, longer = divmod(group.size, core)
    border = longer * (length + 1)
    me = group.ranks
    number = np.where(me < border, me // (length + 1), longer + (me - border) // length)
    place = np.where(me < border, me % (length + 1), (me - border) % length)
    return Runs(group, core, radix, number, place)
