"""The passes of a radix sort over stand-in data: how many keys of each digit every rank holds, pass by pass.

After some passes the keys of all ranks are one sequence, in the order of the digits that are sorted away. It
is kept as pieces: so many keys, one after the other, of one mixture (`labkit.local.mixtures`). A pass cuts
the pieces at the borders of the ranks, divides each among the values of the digit as its mixture says, and
puts the parts in the order of the digit, and for one digit in the order in which they stood, as a stable
sort does. Neighbours of one mixture are one piece again: keys of which all ranks have the same distribution
stay a piece per rank, however many they are.

Which keys these are is definite: what a pass divides are keys in a row, of which nothing is known but the
mixture, so any of them may be given any of the digits. Such keys are made in tests/contract.

Where ranks differ, the pieces grow in number with every pass: after pass i, every pattern of the digits so
far has its piece of every rank. When they are too many to be told apart, and all bits so far are free in all
cells, the next state takes them as mixed evenly: what so many random bits do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit import context
from labkit.errors import DataError
from labkit.local.mixtures import Mixture, Mixtures, cells_of

__all__ = ["EVENLY_MIXED", "MOST_PARTS", "Order", "Passes"]

Counts = NDArray[np.int64]

#: parts of pieces that one pass leaves at most; it looks at 16 times as many
MOST_PARTS = 1 << 22
#: parts made at a time
_AT_ONCE = 1 << 21
#: rounding of a piece's numbers of keys: the golden ratio's fraction and another odd number, of 2**32
_STEP, _TURN = 0x9E3779B9, 0x85EBCA6B

EVENLY_MIXED = (
    "stand-in data: where ranks differ, the keys of all ranks are taken as mixed evenly once more digits "
    "are sorted than their pieces can be told apart"
)

#: the digits sorted so far: lowest bit, width
History = tuple[tuple[int, int], ...]


class Order:
    """The keys of all ranks in the order of the digits so far.

    Attributes
    ----------
    low : int
        Bits that are sorted away.
    bounds : ndarray of int64, shape (p + 1,)
        Where each rank's keys begin and end in the sequence.
    mixtures : ndarray of int64, shape (m,)
        The pieces' mixtures.
    ends : ndarray of int64, shape (m,)
        Where the pieces end.
    is_blended : bool
        Whether pieces have been taken as mixed evenly.
    """

    def __init__(
        self, known: Mixtures, low: int, bounds: Counts, mixtures: Counts, ends: Counts, is_blended: bool
    ) -> None:
        self.known, self.low, self.bounds, self.is_blended = known, low, bounds, is_blended
        self.mixtures, self.ends = _joined(mixtures, ends)
        self.numbers = self._among(self.mixtures)
        self._cut()

    def _cut(self) -> None:
        """Cut the pieces at the borders of the ranks."""
        total = int(self.bounds[-1])
        ends = np.sort(np.concatenate([self.ends, self.bounds[1:]]))
        ends = ends[(ends > 0) & (ends <= total)]
        self.part_ends = ends[np.append(ends[1:] != ends[:-1], True)[: len(ends)]]
        begins = np.concatenate([[0], self.part_ends])[:-1]
        self.lengths = self.part_ends - begins
        self.part_mixtures = self.mixtures[np.searchsorted(self.ends, begins, side="right")]
        #: the first part of every rank
        self.firsts = np.searchsorted(begins, self.bounds)
        numbers = np.arange(1, len(begins) + 1, dtype=np.uint64) * np.uint64(_STEP)
        turned = (numbers + np.uint64((self.low + 1) * _TURN)) & np.uint64(0xFFFFFFFF)
        self.rounding = (turned >> np.uint64(16)).astype(float) / (1 << 16)

    def _among(self, mixtures: Counts) -> Counts:
        """Return the numbers that occur, each once: faster than `numpy.unique` for many of few."""
        return np.flatnonzero(np.bincount(mixtures, minlength=1))

    def below(self, bits: int, parts: slice, bounds: slice) -> Counts:
        """Return how many keys of each part have a lowest digit below each bound, shape (parts, bounds)."""
        mixtures = self.part_mixtures[parts]
        out = np.zeros((len(mixtures), len(range(*bounds.indices((1 << bits) + 1)))), np.int64)
        lengths, rounding = self.lengths[parts], self.rounding[parts]
        in_order = np.argsort(mixtures, kind="stable")
        for chosen in np.split(in_order, np.flatnonzero(np.diff(mixtures[in_order])) + 1):
            if len(chosen):
                split = self.known.split(self.known.all[mixtures[chosen[0]]], bits)
                out[chosen] = split.share_out(lengths[chosen], rounding[chosen], bounds)
        return out

    def row(self, rank: int, bits: int) -> Counts:
        """Return how many keys of each digit a rank holds."""
        parts = slice(int(self.firsts[rank]), int(self.firsts[rank + 1]))
        if parts.start == parts.stop:
            return np.zeros(1 << bits, np.int64)
        counted: Counts = np.diff(self.below(bits, parts, slice(None)).sum(axis=0))
        return counted

    def simplified(self, bits: int) -> Order:
        """Return the order with the pieces that the next digit needs: the same, if they can be told apart."""
        numbers = self.numbers
        children = {self.known.split(self.known.all[number], bits).only_child for number in numbers}
        if len(children) == 1 and -1 not in children:
            return self
        parts = max(len(self.lengths), 16 * len(numbers)) << bits
        left = parts if len(numbers) > 1 else 0  # parts of one mixture are joined again
        if parts <= 16 * MOST_PARTS and min(left, int(self.bounds[-1])) <= MOST_PARTS:
            return self
        return self._blended([self.known.all[number] for number in numbers], numbers)

    def _blended(self, mixtures: list[Mixture], numbers: Counts) -> Order:
        free = self.low + min(mixture.least_free for mixture in mixtures)
        p = len(self.bounds) - 1
        if len(mixtures) == 1 or min(mixture.least_free for mixture in mixtures) == 0 or 1 << free < 4 * p:
            raise DataError(
                f"the digits of this stand-in data cannot be followed on {p:,} ranks: {len(self.lengths):,} "
                f"pieces differ, with {free} bits that are free on all ranks; use fewer ranks, narrower "
                "digits (bits=), the same distribution on all ranks, or a sort that compares keys"
            )
        pieces = np.diff(self.ends, prepend=0).astype(float)
        keys = np.bincount(self.mixtures, pieces, len(self.known.all)).astype(float)[numbers]
        blend = self.known.blend(mixtures, keys)
        return Order(self.known, self.low, self.bounds, np.array([blend.number]), self.ends[-1:], True)

    def constant(self, bits: int) -> Order:
        """Return the order after a digit that is the same for all keys, which then stay where they are."""
        children = [self.known.split(self.known.all[number], bits).only_child for number in self.numbers]
        if -1 in children:
            raise DataError("a digit that differs between keys cannot be left out")
        mixtures = np.array(children, np.int64)[np.searchsorted(self.numbers, self.mixtures)]
        return Order(self.known, self.low + bits, self.bounds, mixtures, self.ends, self.is_blended)

    def sorted(self, bits: int, bounds: Counts) -> Order:
        """Return the order after a pass over the lowest digit, on ranks with these bounds."""
        children = [self.known.split(self.known.all[n], bits).only_child for n in self.numbers]
        if not children:  # no keys
            mixtures, ends = self.mixtures, self.ends
        elif len(set(children)) == 1 and -1 not in children:
            mixtures, ends = np.array(children[:1]), self.ends[-1:]
        else:
            mixtures, ends = self._moved(bits)
        return Order(self.known, self.low + bits, bounds, mixtures, ends, self.is_blended)

    def _moved(self, bits: int) -> tuple[Counts, Counts]:
        """Put the parts in the order of the digit: some digits at a time."""
        digits = max(1, _AT_ONCE // max(len(self.lengths), 1))
        places = np.searchsorted(self.numbers, self.part_mixtures)
        children = np.stack([self.known.split(self.known.all[n], bits).children for n in self.numbers])
        made, lengths = [], []
        for first in range(0, 1 << bits, digits):
            last = min(first + digits, 1 << bits)
            counts = np.diff(self.below(bits, slice(None), slice(first, last + 1)), axis=1).T.ravel()
            found = children[:, first:last][places].T.ravel()
            mixtures, ends = _joined(found[counts > 0], np.cumsum(counts[counts > 0]))
            made.append(mixtures)
            lengths.append(np.diff(ends, prepend=0))
        return np.concatenate(made), np.cumsum(np.concatenate(lengths))


class Passes:
    """What all ranks of one sort share: the order of their keys after every pass, each made once.

    Parameters
    ----------
    ranges : list of list of (int, int, int)
        Every rank's ranges: keys, begin, width (`labkit.local.Range`).
    """

    def __init__(self, ranges: Sequence[Sequence[tuple[int, int, int]]]) -> None:
        self._ranges = [tuple(mine) for mine in ranges]
        self._orders: dict[tuple[History, int, int], Order] = {}

    def counts(self, history: History, rank: int, shift: int, bits: int) -> Counts:
        """Return how many keys of each value of a digit a rank holds, after the passes of `history`.

        Raises
        ------
        DataError
            The distributions are too unlike for that.
        """
        key = (history, shift, bits)
        if key not in self._orders:
            self._orders[key] = self._order(history, shift, bits)
        order = self._orders[key]
        machine = context.current()
        if order.is_blended and machine is not None and hasattr(machine, "note"):
            machine.note(EVENLY_MIXED)
        return order.row(rank, bits)

    def _order(self, history: History, shift: int, bits: int) -> Order:
        if history:
            before = self._orders[history[:-1], *history[-1]]
            total, p = int(before.bounds[-1]), len(self._ranges)
            order = before.sorted(history[-1][1], np.arange(p + 1, dtype=np.int64) * total // p)
        else:
            order = self._first(bits)
        while order.low < shift:
            order = order.constant(bits)
        return order.simplified(bits)

    def _first(self, bits: int) -> Order:
        """Return the keys as they are given, rank by rank."""
        known, numbers = Mixtures(), dict[Any, int]()
        for mine in self._ranges:
            if mine and mine not in numbers:
                cells = [cell for one in mine for cell in cells_of(*one, bits)]
                numbers[mine] = known.of_cells(cells).number
        lengths = [sum(keys for keys, _, _ in mine) for mine in self._ranges]
        bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        pieces = np.array([numbers[mine] for mine in self._ranges if mine], np.int64)
        ends = np.array([bounds[i + 1] for i, mine in enumerate(self._ranges) if mine], np.int64)
        return Order(known, 0, bounds, pieces, ends, False)


def _joined(mixtures: Counts, ends: Counts) -> tuple[Counts, Counts]:
    """Take neighbours of one mixture together."""
    is_last = np.append(mixtures[1:] != mixtures[:-1], True)[: len(mixtures)]
    return mixtures[is_last], ends[is_last]
