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


class Accesses:
    """The open accesses of one rank's part of a window, by the bytes that they touch."""

    def __init__(self) -> None:
        #: by range: by kind, by origin
        self._at: dict[tuple[int, int], dict[str, dict[int, Access]]] = {}
        self._ranges: list[tuple[int, int]] = []  # sorted
        self._longest = 0
        self._of: dict[int, set[tuple[int, int]]] = {}  # by origin: its ranges

    def add(self, low: int, high: int, access: Access, tell: Callable[[Access, int, int], None]) -> None:
        """Note an access of the bytes from low up to high; tell(other, low, high) of those in conflict."""
        if high <= low:
            return
        begin = bisect_left(self._ranges, (low - self._longest, 0))
        for index in range(begin, len(self._ranges)):
            other_low, other_high = self._ranges[index]
            if other_low >= high:
                break
            if other_high <= low:
                continue
            for kind, origins in self._at[other_low, other_high].items():
                if not _agree(kind, access.kind) and origins:
                    tell(next(iter(origins.values())), max(low, other_low), min(high, other_high))
        key = (low, high)
        if key not in self._at:
            self._at[key] = {}
            insort(self._ranges, key)
            self._longest = max(self._longest, high - low)
        self._at[key].setdefault(access.kind, {})[access.origin] = access
        self._of.setdefault(access.origin, set()).add(key)

    def all(self) -> Iterator[tuple[int, int, Access]]:
        """Yield the open accesses with the bytes that they touch; of those that agree, one of each kind."""
        for low, high in self._ranges:
            for origins in self._at[low, high].values():
                for access in islice(origins.values(), 1):
                    yield low, high, access

    def close(self, origin: int | None = None) -> None:
        """Forget the accesses of an origin, or all: they are complete."""
        if origin is None:
            self._at.clear()
            self._ranges.clear()
            self._of.clear()
            self._longest = 0
            return
        for key in self._of.pop(origin, ()):
            kinds = self._at[key]
            for kind in [
                kind for kind, origins in kinds.items() if origins.pop(origin, None) and not origins
            ]:
                del kinds[kind]
            if not kinds:
                del self._at[key]
                self._ranges.pop(bisect_left(self._ranges, key))
