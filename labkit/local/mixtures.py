"""Ranges of a rank's keys whose lowest digits are sorted away: for radix sorts of stand-in data.

A `Mixture` is a distribution over cells. A cell is all keys that agree in their upper bits and are free in
the lower ones: every pattern of the free bits is equally likely, and independent of the cell. What a radix
sort asks of a distribution, digit by digit from the lowest, is then exact: how likely each value of the
lowest digit is, and which mixture the rest of a key with that value has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError

__all__ = ["Cell", "Mixture", "Mixtures", "cells_of"]

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]

#: a range whose ends are no powers of two is cut into at least so many cells ...
_LEAST_CELLS = 16
#: ... and at most so many
_MOST_CELLS = 4096
#: how many cells all mixtures of a run may have together
_MOST_TOLD = 1 << 23

#: first key, free bits, keys
Cell = tuple[int, int, float]


def cells_of(keys: int, begin: int, width: int, bits: int) -> list[Cell]:
    """Cut a range into cells of one size.

    An aligned power of two is one cell, as is a single value. Any other range is cut at multiples of a power
    of two: where that leaves a reasonable number of cells one that ends a digit, so that the cells' upper
    bits and their free bits do not share a digit. Cells at the ends that are covered in part get their part
    of the keys.

    Parameters
    ----------
    keys, begin, width : int
        As `labkit.local.Range`.
    bits : int
        The digit's width.
    """
    spare = max((width // keys).bit_length() - 3, 0)  # a quarter of the distance of two keys, or less
    first, last = -(-begin >> spare) << spare, (begin + width) >> spare << spare
    if last - first >= 1 and (last - first).bit_count() == 1 and first % (last - first) == 0:
        return [(first, (last - first).bit_length() - 1, float(keys))]
    free = max(width.bit_length() - _LEAST_CELLS.bit_length(), 0)
    if width >> (free - free % bits) <= _MOST_CELLS:
        free -= free % bits
    cells = []
    for number in range(begin >> free, -(-(begin + width) >> free)):
        low, high = max(number << free, begin), min((number + 1) << free, begin + width)
        cells.append((number << free, free, keys * ((high - low) / width)))
    return cells


@dataclass(eq=False)
class Mixture:
    """Cells and how many keys each has; the digits below are sorted away.

    Attributes
    ----------
    firsts : ndarray of uint64, shape (c,)
        Each cell's first key, shifted right by the bits that are sorted away.
    free : ndarray of int64, shape (c,)
        Each cell's free bits that are left.
    keys : ndarray of float64, shape (c,)
    number : int
        Its place in `Mixtures`.
    """

    firsts: NDArray[np.uint64]
    free: Counts
    keys: Shares
    number: int = -1
    _splits: dict[int, Split] = field(default_factory=dict, repr=False)

    @cached_property
    def least_free(self) -> int:
        """The free bits of its narrowest cell."""
        return int(self.free.min())


@dataclass(frozen=True)
class Split:
    """What the lowest digit does to a mixture.

    Attributes
    ----------
    up_to : ndarray of float64, shape (2**bits + 1,)
        Keys with a smaller digit; the last entry is all of them.
    children : ndarray of int64, shape (2**bits,)
        The number of the mixture that remains; -1 where no key has the digit.
    only_child : int
        That number if it is the same for all digits that occur; else -1.
    """

    up_to: Shares
    children: Counts
    only_child: int

    def share_out(self, totals: Counts, rounding: Shares, bounds: slice) -> Counts:
        """Divide numbers of keys among the digits: return, for each, how many have a digit below each bound.

        Parameters
        ----------
        totals : ndarray of int64, shape (m,)
        rounding : ndarray of float64, shape (m,)
            From 0 to below 1: where the odd keys go.
        bounds : slice
            Which of the 2**bits + 1 bounds.

        Returns
        -------
        ndarray of int64, shape (m, number of bounds)
        """
        every, up_to = self.up_to[-1], self.up_to[bounds]
        exact = up_to[None, :] * (totals / every)[:, None]
        below: Counts = np.floor(exact + rounding[:, None]).astype(np.int64)
        np.minimum(below, totals[:, None], out=below)
        below[:, up_to >= every] = totals[:, None]
        return below


class Mixtures:
    """All mixtures of a run, each once."""

    def __init__(self) -> None:
        self.all: list[Mixture] = []
        self._numbers: dict[Any, int] = {}
        self._told = 0

    def of_cells(self, cells: Iterable[Cell]) -> Mixture:
        """Return the mixture of these cells."""
        firsts, free, keys = zip(*cells, strict=True)
        return self._merged(np.array(firsts, np.uint64), np.array(free, np.int64), np.array(keys, float))

    def blend(self, mixtures: Sequence[Mixture], keys: Shares) -> Mixture:
        """Return what so many keys of each mixture make together."""
        weights = [keys[i] / mixture.keys.sum() for i, mixture in enumerate(mixtures)]
        return self._merged(
            np.concatenate([mixture.firsts for mixture in mixtures]),
            np.concatenate([mixture.free for mixture in mixtures]),
            np.concatenate([m.keys * weight for m, weight in zip(mixtures, weights, strict=True)]),
        )

    def split(self, mixture: Mixture, bits: int) -> Split:
        """Return what the lowest digit of `bits` bits does to a mixture; made once."""
        if bits not in mixture._splits:
            mixture._splits[bits] = self._split(mixture, bits)
        return mixture._splits[bits]

    def _split(self, mixture: Mixture, bits: int) -> Split:
        values = 1 << bits
        firsts, free = mixture.firsts >> np.uint64(bits), np.maximum(mixture.free - bits, 0)
        is_free = mixture.free >= bits
        if is_free.all():
            child = self._merged(firsts, free, mixture.keys).number
            up_to = np.arange(values + 1) * (mixture.keys.sum() / values)
            return Split(up_to, np.full(values, child), child)
        width = np.where(is_free, 1, 1 << np.minimum(mixture.free, bits))  # digits of each cell
        low = np.where(is_free, 0, (mixture.firsts & np.uint64(values - 1)).astype(np.int64))
        density = mixture.keys / np.where(is_free, values, width)
        edges = np.unique(np.concatenate([[0, values], low[~is_free], (low + width)[~is_free]]))
        children = np.full(values, -1)
        shares = np.zeros(values)
        for begin, end, members in _members(edges, low, width, is_free):
            if len(members):
                shares[begin:end] = density[members].sum()
                made = self._merged(firsts[members], free[members], density[members])
                children[begin:end] = made.number
        found = np.unique(children[children >= 0])
        up_to = np.concatenate([[0.0], np.cumsum(shares)])
        return Split(up_to, children, int(found[0]) if len(found) == 1 else -1)

    def _merged(self, firsts: NDArray[np.uint64], free: Counts, keys: Shares) -> Mixture:
        """Return the mixture of these cells, equal ones taken together; the same object for equal ones."""
        order = np.lexsort((free, firsts))
        firsts, free, keys = firsts[order], free[order], keys[order]
        is_new = np.append(True, (firsts[1:] != firsts[:-1]) | (free[1:] != free[:-1]))
        begins = np.flatnonzero(is_new)
        firsts, free, keys = firsts[begins], free[begins], np.add.reduceat(keys, begins)
        # shares that differ by rounding only are the same
        shares = np.round(keys / keys.sum() * (1 << 40))
        key = (firsts.tobytes(), free.tobytes(), shares.tobytes())
        if key not in self._numbers:
            self._told += len(firsts)
            if self._told > _MOST_TOLD:
                raise DataError(
                    "the digits of this stand-in data depend on each other in too many ways to be followed: "
                    "its ranges are of too many widths; use fewer of them, or ranges of powers of two"
                )
            self._numbers[key] = len(self.all)
            self.all.append(Mixture(firsts, free, keys, len(self.all)))
        return self.all[self._numbers[key]]


def _members(
    edges: Counts, low: Counts, width: Counts, is_free: NDArray[np.bool_]
) -> Iterable[tuple[int, int, Counts]]:
    """Return intervals of digits within which the same cells have keys, and these cells."""
    everywhere = np.flatnonzero(is_free)
    rest = np.flatnonzero(~is_free)
    begin = np.searchsorted(edges, low[rest])
    spans = np.searchsorted(edges, low[rest] + width[rest]) - begin
    cells = np.repeat(rest, spans)
    intervals = np.arange(spans.sum()) - np.repeat(np.cumsum(spans) - spans, spans) + np.repeat(begin, spans)
    order = np.argsort(intervals, kind="stable")
    cells, at = cells[order], np.searchsorted(intervals[order], np.arange(len(edges)))
    for i in range(len(edges) - 1):
        yield int(edges[i]), int(edges[i + 1]), np.concatenate([everywhere, cells[at[i] : at[i + 1]]])
