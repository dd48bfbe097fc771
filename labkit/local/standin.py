"""Stand-in data: keys that are known by their distribution, for inputs that no memory holds.

A `StandIn` is n keys of one rank, sorted or not, of which only the distribution is kept: how many keys lie
in which ranges. It has the length and the dtype of an array; sorted, it tells the key at any place and
counts the keys up to any limit, exactly and without holding them. So a sorter that cuts sorted keys by
splitters learns who sends how much to whom as it would from the keys themselves, and its messages are
phantom buffers (`labkit.sized`). `labkit.local`'s kernels charge for it what they charge for keys.

Which keys it stands for is definite: within a range of k keys, key i lies at (i + shift) / k of
the range, where the shift moves from rank to rank by the golden ratio. `StandIn.keys` makes them, and a run
on these keys has the same messages and takes the same time.

Radix sorts ask for other things: the digits of keys, from the lowest, which these keys have by accident of
their spacing. For them a `StandIn` has the same ranges, and within a range every pattern of lower bits is
equally likely: see `labkit.local.passes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit import context
from labkit.errors import DataError
from labkit.local.passes import Passes
from labkit.phantom import Sized, sized

__all__ = ["ASSUMPTIONS", "Digits", "Range", "StandIn", "StandIns", "is_stand_in", "room_like", "stand_in"]


ASSUMPTIONS = (
    "stand-in data: messages are sized by the input's distribution and carry no keys; keys lie evenly "
    "within their ranges, so the fluctuations of random keys (about the square root of a message's keys) "
    "are absent"
)

Counts = NDArray[np.int64]
Words = NDArray[np.uint64]

_SIGN = np.uint64(1 << 63)
#: its fractional part, times 2**32
_GOLDEN_RATIO = 0x9E3779B9


class Range(NamedTuple):
    """So many keys, spread evenly over `width` positions of the key axis (of 2**64) from `begin` on."""

    keys: int
    begin: int
    width: int


class _Ranges:
    """Ranges in increasing order, as arrays."""

    def __init__(self, ranges: Sequence[Range], shift: float) -> None:
        kept = [one for one in ranges if one.keys > 0]
        self.counts = np.array([one.keys for one in kept], np.int64)
        self.begins = np.array([one.begin for one in kept], np.uint64)
        self.widths = np.array([float(one.width) for one in kept])
        self.last = np.array([one.begin + one.width - 1 for one in kept], np.uint64)
        self.first = np.cumsum(self.counts) - self.counts  # place of each range's first key
        self.shift = shift
        if len(kept) > 1 and bool((self.begins[1:] <= self.last[:-1]).any()):
            raise DataError("the ranges of a stand-in must be in increasing order and must not overlap")
        if any(1 < one.width < one.keys or one.width < 1 for one in kept):
            raise DataError(
                "a range holds one value, or at least as many as it has keys: cut it into single values"
            )

    def told(self) -> list[Range]:
        """Return them as they were given, empty ones left out."""
        rows = zip(self.counts.tolist(), self.begins.tolist(), self.last.tolist(), strict=True)
        return [Range(keys, begin, last - begin + 1) for keys, begin, last in rows]

    def words_at(self, places: Counts) -> Words:
        """Return the positions on the key axis of the keys at these places."""
        which = np.searchsorted(self.first, places, side="right") - 1
        share = (places - self.first[which] + self.shift) / self.counts[which]
        words: Words = self.begins[which] + (share * self.widths[which]).astype(np.uint64)
        return words

    def below(self, limits: Words, including: NDArray[np.bool_]) -> Counts:
        """Count the keys below each position, or up to it: estimate, then go the step or two."""
        if len(self.counts) == 0:
            return np.zeros(len(limits), np.int64)
        which = np.maximum(np.searchsorted(self.begins, limits, side="right") - 1, 0)
        inside = np.where(limits > self.begins[which], limits - self.begins[which], np.uint64(0))
        share = np.minimum(inside.astype(np.float64) / self.widths[which], 1.0)
        end = self.first[which] + self.counts[which]
        places = self.first[which] + np.ceil(share * self.counts[which] - self.shift).astype(np.int64)
        places = np.clip(places, self.first[which], end)
        total = int(self.first[-1] + self.counts[-1])

        def comes_before(at: Counts) -> NDArray[np.bool_]:
            words = self.words_at(np.clip(at, 0, total - 1))
            return np.where(including, words <= limits, words < limits) & (at < total)

        while (back := (places > 0) & ~comes_before(places - 1)).any():
            places = places - back
        while (on := comes_before(places)).any():
            which = np.searchsorted(self.first, places, side="right") - 1
            is_one_value = on & (self.widths[which] <= 1.0)  # such a range is passed at once
            places = np.where(is_one_value, self.first[which] + self.counts[which], places + on)
        counted: Counts = places
        return counted


class Digits(NamedTuple):
    """What a rank in a radix sort knows of its keys.

    Attributes
    ----------
    passes : Passes
        What the sort's ranks share.
    rank : int
        This rank among them.
    sorted : tuple of (int, int)
        The digits that all keys have been sorted by, each in a pass: lowest bit, width.
    local : tuple of (int, int), optional
        The digit that this rank's keys have been put in the order of, before their exchange.
    """

    passes: Passes
    rank: int
    sorted: tuple[tuple[int, int], ...] = ()
    local: tuple[int, int] | None = None


class StandIn(Sized):
    """n keys of one rank, of dtype int64, known by their distribution: see `stand_in`."""

    _ranges: _Ranges | None = None
    _digits: Digits | None = None
    is_sorted: bool = False

    def __array_finalize__(self, base: object) -> None:
        """Forget the distribution: a part of the buffer is a phantom."""

    def __repr__(self) -> str:
        return f"StandIn of {self.size} {'sorted ' if self.is_sorted else ''}keys"

    __str__ = __repr__

    def sorted(self) -> StandIn:
        """Return the same keys in order."""
        return _make(self.size, self._ranges, True)

    def __getitem__(self, places: Any) -> Any:
        """Return the keys at these places; sorted keys only."""
        if self._ranges is None or not (isinstance(places, np.ndarray) and places.dtype.kind in "iu"):
            return super().__getitem__(places).view(Sized)
        if not self.is_sorted:
            raise DataError("a stand-in has keys only in sorted order: sort it first (labkit.local.sort)")
        if places.size == 0:
            return np.empty(places.shape, np.int64)
        if int(places.min()) < -self.size or int(places.max()) >= self.size:
            raise IndexError(f"places {places.min()} to {places.max()} of {self.size} keys")
        from_begin = np.where(places < 0, places + self.size, places).astype(np.int64)
        return _as_keys(self._ranges.words_at(from_begin.reshape(-1))).reshape(places.shape)

    def count_up_to(self, limits: NDArray[np.int64], including: NDArray[np.bool_] | bool) -> Counts:
        """Count, for every limit, the keys below it (and those equal to it where `including`)."""
        if self._ranges is None:
            raise DataError("this stand-in has lost its distribution: only the input of a sort has one")
        words = np.asarray(limits, np.int64).view(np.uint64) ^ _SIGN
        return self._ranges.below(words, np.broadcast_to(np.asarray(including, np.bool_), words.shape))

    def ranges(self) -> list[Range]:
        """Return where the keys lie."""
        if self._ranges is None:
            raise DataError("this stand-in has lost its distribution: only the input of a sort has one")
        return self._ranges.told()

    def digit_counts(self, shift: int, bits: int) -> Counts:
        """Count how many times each value of a digit occurs: in a radix sort."""
        if self._digits is None:
            raise DataError(
                "counting digits looks at every key, and a stand-in holds none; sorters tell all ranks "
                "their distributions first (labkit.local.StandIns)"
            )
        passes, rank, history, _ = self._digits
        counts = passes.counts(history, rank, shift, bits)
        if counts.sum() != self.size:
            raise DataError(
                f"this rank has {self.size} keys where even blocks have {counts.sum()}: stand-in data can be "
                "sorted by digits only where every pass leaves even blocks"
            )
        return counts

    def scattered(self, shift: int, bits: int) -> StandIn:
        """Return the keys in the order of a digit."""
        known = self._digits
        if known is not None and (shift, bits) not in known.sorted:
            known = known._replace(local=(shift, bits))
        return _make(self.size, None, False, known)

    def keys(self) -> NDArray[np.int64]:
        """Make the keys themselves, in order: for comparisons, where memory holds them."""
        if self._ranges is None:
            raise DataError("this stand-in has lost its distribution")
        return (
            _as_keys(self._ranges.words_at(np.arange(self.size, dtype=np.int64)))
            if self.size
            else np.empty(0, np.int64)
        )

    def copy(self, order: Any = "C") -> StandIn:
        """Return the same keys."""
        return _make(self.size, self._ranges, self.is_sorted, self._digits)

    def __deepcopy__(self, memo: Any) -> StandIn:
        return self.copy()

    def __copy__(self) -> StandIn:
        return self.copy()


def _as_keys(words: Words) -> NDArray[np.int64]:
    return (words ^ _SIGN).view(np.int64)


def _make(n: int, ranges: _Ranges | None, is_sorted: bool, digits: Digits | None = None) -> StandIn:
    made = sized(n, np.int64).view(StandIn)
    made._ranges, made.is_sorted, made._digits = ranges, is_sorted, digits
    return made


def stand_in(ranges: Sequence[Range], rank: int) -> StandIn:
    """Make the stand-in of one rank's keys.

    Parameters
    ----------
    ranges : sequence of Range
        Where the keys lie: in increasing order, without overlap.
    rank : int
        Moves the keys within their ranges, so that ranks with equal distributions do not hold equal keys.

    Returns
    -------
    StandIn, shape (n_local,)

    Raises
    ------
    DataError
        Ranges that overlap or are out of order.

    Examples
    --------
    >>> mine = stand_in([Range(10**7, 0, 1 << 64)], rank=0)
    >>> len(mine), mine.sorted().count_up_to([0], including=False)
    (10000000, array([5000000]))
    """
    shift = (rank * _GOLDEN_RATIO % (1 << 32)) / (1 << 32)
    checked = _Ranges(ranges, shift)
    machine = context.current()
    if machine is not None and hasattr(machine, "note"):
        machine.note(ASSUMPTIONS)
    return _make(int(checked.counts.sum()), checked, False)


def is_stand_in(keys: object) -> bool:
    """Tell whether keys are known by their distribution only."""
    return isinstance(keys, StandIn)


def room_like(keys: NDArray[Any], n: int) -> NDArray[Any]:
    """Make room for n keys like these: a phantom buffer where these are phantoms."""
    if not isinstance(keys, StandIn):
        return np.empty(n, keys.dtype)
    known = keys._digits
    if known is not None and known.local is not None:  # keys arrive here, and the pass is done
        known = Digits(known.passes, known.rank, (*known.sorted, known.local))
    return _make(n, None, False, known)


DIGITS = (
    "stand-in data: within a range every pattern of a key's lower bits is equally frequent, whatever "
    "the upper ones are; a range that ends at no power of two ends to a sixteenth of its width"
)


@dataclass
class _Sheet:
    """What the ranks of one sort tell each other."""

    ranges: list[list[tuple[int, int, int]] | None]
    passes: Passes | None = None
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = len(self.ranges)


class StandIns:
    """The distributions of all ranks that take part in one sort.

    Every rank makes one before the ranks' first collective operation in which all wait for all, and calls
    `with_digits` after it. Of keys themselves nothing is told.

    Parameters
    ----------
    comm : communicator
    mine : object
        This rank's keys.

    Raises
    ------
    DataError
        The machine is none whose ranks share a memory, or this stand-in has lost its distribution.
    """

    def __init__(self, comm: Any, mine: object) -> None:
        self._sheet: _Sheet | None = None
        if not isinstance(mine, StandIn):
            return
        board = getattr(context.current(), "board", None)
        number = getattr(comm, "_context", None)
        if board is None or number is None:
            raise DataError(
                "stand-in data can be sorted by its digits on a simulated machine only: the digits of keys "
                "that came from other ranks follow from the distributions of all ranks, and no message "
                "carries those; sort keys, or use sample_sort, histogram_sort or exact_splitting_sort"
            )
        self.rank = int(comm.rank)
        sorts = board.get((number, self.rank), 0)
        board[number, self.rank] = sorts + 1
        self._board, self._key = board, ("sort", number, sorts)
        self._sheet = board.setdefault(self._key, _Sheet([None] * int(comm.size)))
        self._sheet.ranges[self.rank] = [(one.keys, one.begin, one.width) for one in mine.ranges()]

    def with_digits(self, mine: NDArray[Any]) -> NDArray[Any]:
        """Return this rank's keys so that `labkit.local.digit_counts` knows their digits."""
        sheet = self._sheet
        if sheet is None:
            return mine
        if sheet.passes is None:
            assert None not in sheet.ranges, "some ranks have not sent their distribution yet"
            sheet.passes = Passes([one or [] for one in sheet.ranges])
            machine: Any = context.current()
            machine.note(DIGITS)
        sheet.left -= 1
        if not sheet.left:
            del self._board[self._key]
        assert isinstance(mine, StandIn)
        made = mine.copy()
        made._digits = Digits(sheet.passes, self.rank)
        return made
