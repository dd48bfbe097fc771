"""Races on windows: two accesses of one epoch that conflict, wherever they come from.

An access is open from its call to the synchronisation that completes it: the fence, the target's `Wait`, or
the origin's flush or unlock. Two that are open at one target at the same time are not ordered by anything, so
what they leave depends on chance if they overlap and conflict (MPI 4.1, section 12.7): a `Put` with anything,
a `Get` with anything that writes, an accumulate with anything but accumulates of the same operator and type
(NO_OP agrees with all). An access that a flush has completed is forgotten, so nothing is said that is not so.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from labkit.comm.place import Place
from labkit.comm.rma.footprints import Footprint, Pieces, meet

__all__ = ["Access", "Accesses"]

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
        """Note an access; tell(other, low, high) of those in conflict, with the first bytes of both."""
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
