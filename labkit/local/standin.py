"""Stand-in data: keys that are known by their distribution, for inputs that no memory holds.

A `StandIn` is n keys of one rank, sorted or not, of which only the distribution is kept: how many keys lie
in which ranges. It has the length and the dtype of an array; sorted, it gives the key at any place and
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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.program import context
from labkit.program.sized import Sized, sized

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = [
    "ASSUMPTIONS",
    "Digits",
    "Passes",
    "Range",
    "StandIn",
    "StandIns",
    "is_stand_in",
    "room_like",
    "stand_in",
]


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
    """Keys, spread evenly over `width` positions of the key axis (of 2**64) from `begin` on."""

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
            raise DataError(
                "the ranges of a stand-in must be in increasing order and must not overlap", code="not-sorted"
            )
        if any(1 < one.width < one.keys or one.width < 1 for one in kept):
            raise DataError(
                "a range holds one value, or at least as many as it has keys: cut it into single values",
                code="count-mismatch",
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
            is_one_value = on & (self.widths[which] <= 1.0)  # such a range is passed in one step
            places = np.where(is_one_value, self.first[which] + self.counts[which], places + on)
        counted: Counts = places
        return counted


class Digits(NamedTuple):
    """What a rank in a radix sort knows of its keys.

    `passes`: What the sort's ranks share.
    `rank`: This rank among them.
    `sorted`: The digits that all keys have been sorted by, each in a pass: lowest bit, width.
    `local`: The digit that this rank's keys have been put in the order of, before their exchange.
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
            raise DataError(
                "a stand-in has keys only in sorted order: sort it first (labkit.local.sort)",
                code="unsupported",
            )
        if places.size == 0:
            return np.empty(places.shape, np.int64)
        if int(places.min()) < -self.size or int(places.max()) >= self.size:
            raise IndexError(f"places {places.min()} to {places.max()} of {self.size} keys")
        from_begin = np.where(places < 0, places + self.size, places).astype(np.int64)
        return _as_keys(self._ranges.words_at(from_begin.reshape(-1))).reshape(places.shape)

    def count_up_to(self, limits: NDArray[np.int64], including: NDArray[np.bool_] | bool) -> Counts:
        """Count, for every limit, the keys below it (and those equal to it where `including`)."""
        if self._ranges is None:
            raise DataError(
                "this stand-in has lost its distribution: only the input of a sort has one",
                code="unsupported",
            )
        words = np.asarray(limits, np.int64).view(np.uint64) ^ _SIGN
        return self._ranges.below(words, np.broadcast_to(np.asarray(including, np.bool_), words.shape))

    def ranges(self) -> list[Range]:
        """Return where the keys lie."""
        if self._ranges is None:
            raise DataError(
                "this stand-in has lost its distribution: only the input of a sort has one",
                code="unsupported",
            )
        return self._ranges.told()

    def digit_counts(self, shift: int, bits: int) -> Counts:
        """Count how many times each value of a digit occurs: in a radix sort."""
        if self._digits is None:
            raise DataError(
                "counting digits looks at every key, and a stand-in has no keys; sorters send all ranks "
                "their distributions first (labkit.local.StandIns)",
                code="unsupported",
            )
        passes, rank, history, _ = self._digits
        counts = passes.counts(history, rank, shift, bits)
        if counts.sum() != self.size:
            raise DataError(
                f"this rank has {self.size} keys where even blocks have {counts.sum()}: stand-in data can be "
                "sorted by digits only where every pass leaves even blocks",
                code="unsupported",
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
            raise DataError("this stand-in has lost its distribution", code="unsupported")
        return (
            _as_keys(self._ranges.words_at(np.arange(self.size, dtype=np.int64)))
            if self.size
            else np.empty(0, np.int64)
        )

    def copy(self, order: object = "C") -> StandIn:
        """Return the same keys."""
        return _make(self.size, self._ranges, self.is_sorted, self._digits)

    def __deepcopy__(self, memo: object) -> StandIn:
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
    """Return whether keys are known by their distribution only."""
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
    """What the ranks of one sort exchange."""

    ranges: list[list[tuple[int, int, int]] | None]
    passes: Passes | None = None
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = len(self.ranges)


class StandIns:
    """The distributions of all ranks that take part in one sort.

    Every rank makes one before the ranks' first collective operation in which all wait for all, and calls
    `with_digits` after it. Keys themselves are not exchanged.

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

    def __init__(self, comm: Intracomm, mine: object) -> None:
        self._sheet: _Sheet | None = None
        if not isinstance(mine, StandIn):
            return
        board = getattr(context.current(), "board", None)
        number = getattr(comm, "_context", None)
        if board is None or number is None:
            raise DataError(
                "stand-in data can be sorted by its digits on a simulated machine only: the digits of keys "
                "that came from other ranks follow from the distributions of all ranks, and no message "
                "carries those; sort keys, or use sample_sort, histogram_sort or exact_splitting_sort",
                code="unsupported",
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


# The passes of a radix sort over stand-in data: how many keys of each digit every rank holds, pass by pass.
#
# After some passes the keys of all ranks are one sequence, in the order of the digits that are sorted away.
# It is kept as pieces: a number of keys, one after the other, of one mixture. A pass cuts
# the pieces at the borders of the ranks, divides each among the values of the digit as its mixture says, and
# puts the parts in the order of the digit, and for one digit in the order in which they stood, as a stable
# sort does. Neighbors of one mixture are one piece again: keys of which all ranks have the same distribution
# stay a piece per rank, however many they are.
#
# Which keys these are is definite: what a pass divides are keys in a row, of which nothing is known but the
# mixture, so any of them may be given any of the digits. Such keys are made in tests/contract.
#
# Where ranks differ, the pieces grow in number with every pass: after pass i, every pattern of the digits so
# far has its piece of every rank. When they are too many to distinguish, and all bits so far are free in all
# cells, the next state takes them as mixed evenly, as that many random bits do.


Shares = NDArray[np.float64]

#: a range whose ends are no powers of two is cut into at least this many cells ...
_LEAST_CELLS = 16
#: ... and at most this many
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

    `firsts` (ndarray of uint64, shape (c,)): Each cell's first key, shifted right by the bits that are sorted
        away.
    `free` (ndarray of int64, shape (c,)): Each cell's free bits that are left.
    `keys` (ndarray of float64, shape (c,))
    `number`: Its place in `Mixtures`.
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

    `up_to` (ndarray of float64, shape (2**bits + 1,)): Keys with a smaller digit; the last entry is all of
        them.
    `children` (ndarray of int64, shape (2**bits,)): The number of the mixture that remains; -1 where no key
        has the digit.
    `only_child`: That number if it is the same for all digits that occur; else -1.
    """

    up_to: Shares
    children: Counts
    only_child: int

    def share_out(self, totals: Counts, rounding: Shares, bounds: slice) -> Counts:
        """Divide numbers of keys among the digits: return, for each, how many have a digit below each bound.

        `totals` (ndarray of int64, shape (m,))
        `rounding` (ndarray of float64, shape (m,)): From 0 to below 1: where the odd keys go.
        `bounds`: Which of the 2**bits + 1 bounds.
        Returns: ndarray of int64, shape (m, number of bounds).
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
        self._numbers: dict[object, int] = {}
        self._told = 0

    def of_cells(self, cells: Iterable[Cell]) -> Mixture:
        """Return the mixture of these cells."""
        firsts, free, keys = zip(*cells, strict=True)
        return self._merged(np.array(firsts, np.uint64), np.array(free, np.int64), np.array(keys, float))

    def blend(self, mixtures: Sequence[Mixture], keys: Shares) -> Mixture:
        """Return the union of a number of keys of each mixture."""
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
                    "its ranges are of too many widths; use fewer of them, or ranges of powers of two",
                    code="unsupported",
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


#: parts of pieces that one pass leaves at most; it looks at 16 times as many
MOST_PARTS = 1 << 22
#: parts made at a time
_AT_ONCE = 1 << 21
#: rounding of a piece's numbers of keys: the golden ratio's fraction and another odd number, of 2**32
_STEP, _TURN = 0x9E3779B9, 0x85EBCA6B

EVENLY_MIXED = (
    "stand-in data: where ranks differ, the keys of all ranks are taken as mixed evenly once more digits "
    "are sorted than their pieces can be distinguished"
)

#: the digits sorted so far: lowest bit, width
History = tuple[tuple[int, int], ...]


class Order:
    """The keys of all ranks in the order of the digits so far.

    `low`: Bits that are sorted away.
    `bounds` (ndarray of int64, shape (p + 1,)): Where each rank's keys begin and end in the sequence.
    `mixtures` (ndarray of int64, shape (m,)): The pieces' mixtures.
    `ends` (ndarray of int64, shape (m,)): Where the pieces end.
    `is_blended`: Whether pieces have been taken as mixed evenly.
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
        """Return the order with the pieces that the next digit needs: the same, if they are distinct."""
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
                "digits (bits=), the same distribution on all ranks, or a sort that compares keys",
                code="unsupported",
            )
        pieces = np.diff(self.ends, prepend=0).astype(float)
        keys = np.bincount(self.mixtures, pieces, len(self.known.all)).astype(float)[numbers]
        blend = self.known.blend(mixtures, keys)
        return Order(self.known, self.low, self.bounds, np.array([blend.number]), self.ends[-1:], True)

    def constant(self, bits: int) -> Order:
        """Return the order after a digit that is the same for all keys, which then stay where they are."""
        children = [self.known.split(self.known.all[number], bits).only_child for number in self.numbers]
        if -1 in children:
            raise DataError("a digit that differs between keys cannot be skipped", code="unsupported")
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

    `ranges`: Every rank's ranges: keys, begin, width (`labkit.local.Range`).
    """

    def __init__(self, ranges: Sequence[Sequence[tuple[int, int, int]]]) -> None:
        self._ranges = [tuple(mine) for mine in ranges]
        self._orders: dict[tuple[History, int, int], Order] = {}

    def counts(self, history: History, rank: int, shift: int, bits: int) -> Counts:
        """Return how many keys of each value of a digit a rank holds, after the passes of `history`.

        Raises DataError: The distributions are too unlike for that.
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
        """Return the keys as given, rank by rank."""
        known, numbers = Mixtures(), dict[object, int]()
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
    """Take neighbors of one mixture together."""
    is_last = np.append(mixtures[1:] != mixtures[:-1], True)[: len(mixtures)]
    return mixtures[is_last], ends[is_last]
