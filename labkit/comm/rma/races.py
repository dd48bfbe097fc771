"""Races on windows: two accesses of one epoch that conflict, wherever they come from.

An access is open from its call to the synchronization that completes it: the fence, the target's `Wait`, or
the origin's flush or unlock. Two that are open at one target at the same time are not ordered by anything, so
what they leave depends on chance if they overlap and conflict (MPI 4.1, section 12.7): a `Put` with anything,
a `Get` with anything that writes, an accumulate with anything but accumulates of the same operator and type
(NO_OP agrees with all). An access that a flush has completed is forgotten, so nothing is said that is not so.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple
from labkit.comm.handles.typebody import Typemap
from labkit.comm.place import Place
from labkit.comm.typed import data_bytes, is_dense

__all__ = ["Access", "Accesses", "Footprint", "Pieces", "Strided", "footprint_of", "meet"]


#: what is said about one window; the rest is counted
MOST_SAID = 10


class Access(NamedTuple):
    """One access of a window.

    Attributes
    ----------
    kind : str
        "put", "get" or an accumulate's operator and datatype: accesses of one kind agree, puts excepted.
    method : str
    origin : int
        World rank.
    place : Place
    """

    kind: str
    method: str
    origin: int
    place: Place


def _agree(first: str, second: str) -> bool:
    """Whether two kinds of access may be at the same bytes."""
    if first == "put" or second == "put":
        return False
    if first == second:
        return True
    if "get" in (first, second):  # with an accumulate
        return (second if first == "get" else first) == "NO_OP"
    return "NO_OP" in (first, second)


class _Column:
    """Footprints of one stride, sorted by where their pieces lie within it."""

    def __init__(self, stride: int) -> None:
        self.stride = stride
        self._places: list[tuple[int, Footprint]] = []
        self._longest = 0

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, one: Footprint, length: int) -> None:
        insort(self._places, (one.low % self.stride, one), key=_place)
        self._longest = max(self._longest, length)

    def remove(self, one: Footprint) -> None:
        index = bisect_left(self._places, one.low % self.stride, key=_place)
        while self._places[index][1] != one:
            index += 1
        del self._places[index]

    def near(self, low: int, length: int) -> Iterator[Footprint]:
        """Yield those that may meet pieces of a length at this stride, or one piece."""
        if length + self._longest >= self.stride:
            yield from (one for _, one in self._places)
            return
        place = low % self.stride
        for shift in (-self.stride, 0, self.stride):
            begin = bisect_left(self._places, place + shift - self._longest + 1, key=_place)
            end = bisect_left(self._places, place + shift + length, key=_place)
            yield from (one for _, one in self._places[begin:end])


def _place(entry: tuple[int, Footprint]) -> int:
    return entry[0]


class Accesses:
    """The open accesses of one rank's part of a window, by the bytes that they touch."""

    def __init__(self) -> None:
        #: by footprint: by kind, by origin
        self._at: dict[Footprint, dict[str, dict[int, Access]]] = {}
        self._intervals: list[tuple[int, int]] = []  # of those without a shape; sorted
        self._longest = 0
        self._columns: dict[int, _Column] = {}  # by stride
        self._others: dict[Footprint, None] = {}
        self._of: dict[int, set[Footprint]] = {}  # by origin

    def add(self, where: Footprint, access: Access, tell: Callable[[Access, int, int], None]) -> None:
        """Note an access; call tell(other, low, high) for each conflict, with their first shared bytes."""
        if where.high <= where.low:
            return
        for other in self._near(where):
            kinds = self._at[other]
            if all(_agree(kind, access.kind) for kind in kinds):
                continue
            common = meet(other, where)
            if common is None:
                continue
            for kind, origins in kinds.items():
                if not _agree(kind, access.kind) and origins:
                    tell(next(iter(origins.values())), *common)
        if where not in self._at:
            self._at[where] = {}
            if where.shape is None:
                insort(self._intervals, (where.low, where.high))
                self._longest = max(self._longest, where.high - where.low)
            elif isinstance(where.shape, Pieces):
                self._others[where] = None
            else:
                length, stride, _ = where.shape
                self._columns.setdefault(stride, _Column(stride)).add(where, length)
        self._at[where].setdefault(access.kind, {})[access.origin] = access
        self._of.setdefault(access.origin, set()).add(where)

    def _near(self, where: Footprint) -> Iterator[Footprint]:
        """Yield the footprints that may meet one."""
        begin = bisect_left(self._intervals, (where.low - self._longest, 0))
        end = bisect_left(self._intervals, (where.high, 0))
        if end - begin <= where.n_pieces:
            yield from (Footprint(*one) for one in self._intervals[begin:end])
        else:
            found: dict[tuple[int, int], None] = {}
            for low, high in where.pieces():
                index = bisect_left(self._intervals, (low - self._longest, 0))
                while index < end and self._intervals[index][0] < high:
                    if self._intervals[index][1] > low:
                        found[self._intervals[index]] = None
                    index += 1
            yield from (Footprint(*one) for one in found)
        shape = where.shape
        for stride, column in self._columns.items():
            if shape is None:
                yield from column.near(where.low, where.high - where.low)
            elif not isinstance(shape, Pieces) and shape.stride == stride:
                yield from column.near(where.low, shape.length)
            else:
                yield from column.near(0, stride)
        yield from self._others

    def all(self) -> Iterator[tuple[Footprint, Access]]:
        """Yield the open accesses with the bytes that they touch; of those that agree, one of each kind."""
        for where, kinds in self._at.items():
            for origins in kinds.values():
                for access in islice(origins.values(), 1):
                    yield where, access

    def close(self, origin: int | None = None) -> None:
        """Forget the accesses of an origin, or all: they are complete."""
        if origin is None:
            self._at.clear()
            self._intervals.clear()
            self._columns.clear()
            self._others.clear()
            self._of.clear()
            self._longest = 0
            return
        for where in self._of.pop(origin, ()):
            kinds = self._at[where]
            for kind in [
                kind for kind, origins in kinds.items() if origins.pop(origin, None) and not origins
            ]:
                del kinds[kind]
            if not kinds:
                self._remove(where)

    def _remove(self, where: Footprint) -> None:
        del self._at[where]
        if where.shape is None:
            self._intervals.pop(bisect_left(self._intervals, (where.low, where.high)))
        elif isinstance(where.shape, Pieces):
            del self._others[where]
        else:
            column = self._columns[where.shape.stride]
            column.remove(where)
            if not column:
                del self._columns[where.shape.stride]


# The bytes that an access of a window touches: an interval, equal pieces at a stride, or any pieces.
#
# A column of a matrix is one description, however many rows it has; whether two of the same stride meet is
# arithmetic on four numbers.


_Numbers = NDArray[np.int64]


class Strided(NamedTuple):
    """Pieces of one length at one distance."""

    length: int
    stride: int
    repeats: int


class Pieces:
    """Any pieces, in order, relative to the first; equal to itself only."""

    __slots__ = ("begins", "ends")

    def __init__(self, begins: _Numbers, ends: _Numbers) -> None:
        self.begins, self.ends = begins, ends


class Footprint(NamedTuple):
    """Bytes from `low` up to `high`: all of them, or those of a shape.

    Attributes
    ----------
    low, high : int
    shape : Strided, Pieces or None
        None: all.
    """

    low: int
    high: int
    shape: Strided | Pieces | None = None

    @property
    def n_pieces(self) -> int:
        """The number of pieces."""
        if self.shape is None:
            return 1
        return self.shape.repeats if isinstance(self.shape, Strided) else len(self.shape.begins)

    def arrays(self) -> tuple[_Numbers, _Numbers]:
        """Return where the pieces begin and end, in order."""
        if isinstance(self.shape, Pieces):
            return self.low + self.shape.begins, self.low + self.shape.ends
        length, stride, count = self.shape or (self.high - self.low, 0, 1)
        begins = self.low + stride * np.arange(count, dtype=np.int64)
        return begins, begins + length

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield where each piece begins and ends."""
        begins, ends = self.arrays()
        return zip(begins.tolist(), ends.tolist(), strict=True)


def footprint_of(place: Simple, n_bytes: int | None = None, base: int = 0) -> Footprint:
    """Return the bytes of its memory that the data touch; `base` is added to all."""
    offset = base + place.offset
    if n_bytes is None:
        n_bytes = data_bytes(place)
    if is_dense(place):
        return Footprint(offset, offset + n_bytes)
    low, high, shape = _relative(place.datatype._usable().map, place.count, n_bytes)
    return Footprint(offset + low, offset + high, shape)


@lru_cache(maxsize=256)
def _relative(body: Typemap, count: int, n_bytes: int) -> Footprint:
    """Return the footprint of elements at address 0."""
    begins = (np.arange(count)[:, None] * body.extent + body.offsets).ravel()
    lengths = np.broadcast_to(body.lengths, (count, len(body.lengths))).ravel()
    before = np.cumsum(lengths) - lengths
    lengths = np.clip(n_bytes - before, 0, lengths)  # the last element may be filled in part
    begins, lengths = begins[lengths > 0], lengths[lengths > 0]
    if not len(begins):
        return Footprint(0, 0)
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate((begins + lengths)[order])
    is_first = np.append(True, begins[1:] > ends[:-1])  # what follows another piece closely is a part of it
    begins, ends = begins[is_first], ends[np.append(is_first[1:], True)]
    low, high = int(begins[0]), int(ends[-1])
    if len(begins) == 1:
        return Footprint(low, high)
    strides, sizes = np.diff(begins), ends - begins
    if (strides == strides[0]).all() and (sizes == sizes[0]).all():
        return Footprint(low, high, Strided(int(sizes[0]), int(strides[0]), len(begins)))
    return Footprint(low, high, Pieces(begins - low, ends - low))


def meet(first: Footprint, second: Footprint) -> tuple[int, int] | None:
    """Return the first bytes that both touch: where they begin and end, or None.

    Examples
    --------
    >>> meet(Footprint(0, 10), Footprint(8, 20))
    (8, 10)
    >>> columns = [Footprint(8 * k, 8 * k + 8 * 512 * 511 + 8, Strided(8, 8 * 512, 512)) for k in range(3)]
    >>> meet(columns[0], columns[2]), meet(columns[1], Footprint(5000, 6000))
    (None, None)
    >>> meet(columns[1], Footprint(4096, 4106))
    (4104, 4106)
    """
    if first.high <= second.low or second.high <= first.low:
        return None
    a, b = first.shape, second.shape
    if a is None and b is None:
        return max(first.low, second.low), min(first.high, second.high)
    if isinstance(a, Pieces) or isinstance(b, Pieces) or (a is not None and b is not None and a[1] != b[1]):
        return _meeting_pieces(first, second)
    stride = (a or b or (0, 1))[1]
    n, m = first.n_pieces, second.n_pieces
    length = first.high - first.low if a is None else a[0]
    other_length = second.high - second.low if b is None else b[0]
    # Piece i of the first and piece j of the second meet where i - j = k with these bounds.
    distance = second.low - first.low
    least = max((distance - length) // stride + 1, 1 - m)
    most = min((distance + other_length - 1) // stride, n - 1)
    best: tuple[int, int] | None = None
    for k in (max(least, 0), min(most, -1)):  # the lowest bytes of both are there
        if least <= k <= most:
            begin = first.low + max(k, 0) * stride
            other = second.low + max(-k, 0) * stride
            found = max(begin, other), min(begin + length, other + other_length)
            best = found if best is None else min(best, found)
    return best


@lru_cache(maxsize=4096)
def _meeting_pieces(first: Footprint, second: Footprint) -> tuple[int, int] | None:
    begins, ends = first.arrays()
    others, other_ends = second.arrays()
    # The first of the other's pieces that ends behind the beginning of each of ours.
    places = np.minimum(np.searchsorted(other_ends, begins, "right"), len(others) - 1)
    low, high = np.maximum(begins, others[places]), np.minimum(ends, other_ends[places])
    where = np.flatnonzero(low < high)
    return (int(low[where[0]]), int(high[where[0]])) if len(where) else None
