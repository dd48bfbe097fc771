"""The memory of a checked call's buffers: the bytes that they take, exactly, and the elements in it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple, parse_simple
from labkit.comm.handles.packing import address_of
from labkit.comm.handles.typebody import TypeBody

__all__ = ["Elements", "Region", "agree", "elements_of", "region_of"]

#: types whose elements may be anything
_BYTES = frozenset({"BYTE", "PACKED", "CHAR", "SIGNED_CHAR", "UNSIGNED_CHAR", "INT8_T", "UINT8_T", "C_BOOL"})
#: runs of equal elements that are compared; a message of more is taken for anything from there on
_MOST_RUNS = 256
_Numbers = NDArray[np.int64]


@dataclass
class Region:
    """Memory that a call uses.

    Attributes
    ----------
    message : Simple
        What the call was given; it keeps the memory where it is.
    begins, ends : numpy.ndarray, shape (runs,)
        Addresses of its bytes, in ascending order: of a datatype with gaps, the gaps are left out.
    is_written : bool
    """

    message: Simple
    begins: _Numbers
    ends: _Numbers
    is_written: bool

    @property
    def nbytes(self) -> int:
        """How many there are."""
        return int((self.ends - self.begins).sum())

    def sum(self) -> int:
        """Return a checksum of what lies there now."""
        if self.message.home is not None:
            return zlib.crc32(self.message.home.gathered())
        message = self.message
        data: Any = message.memory[message.offset : message.offset + message.bytes]
        return zlib.crc32(data)

    def overlaps(self, other: Region) -> bool:
        """Whether they have a byte in common, and one of them is written."""
        if not (self.is_written or other.is_written):
            return False
        # of each of our runs: the first of theirs that ends behind its beginning
        first = np.searchsorted(other.ends, self.begins, side="right")
        is_there = first < len(other.begins)
        return bool((other.begins[first[is_there]] < self.ends[is_there]).any())


#: kinds of elements in a row and how many of each, "object" for a pickled one, None for anything
Elements = tuple[tuple[str, int], ...] | str | None


def _simple_of(message: Any) -> Simple | None:
    """Read a message of one block; None for anything else."""
    try:
        found = parse_simple(message, False)
    except Exception:  # the call itself says what is wrong with it
        return None
    return found if found.memory.dtype == np.uint8 and type(found.memory) is np.ndarray else None


def region_of(message: Any, is_written: bool) -> list[Region]:
    """Return the memory of a message of one block, as a list of one; nothing of others and of empty ones."""
    found = _simple_of(message)
    if found is None or found.bytes == 0:
        return []
    if found.home is not None:
        begins, ends = found.home.runs()
    else:
        begin = address_of(found.memory) + found.offset
        begins, ends = np.array([begin], np.int64), np.array([begin + found.bytes], np.int64)
    return [Region(found, begins, ends, is_written)] if len(begins) else []


def elements_of(message: Any) -> tuple[Elements, str]:
    """Return the kinds of a message's elements, and the name of their type."""
    found = _simple_of(message)
    if found is None:
        return None, "several blocks"
    body = found.datatype._body
    basics = body.basics()
    names = dict.fromkeys(str(kind.constant) for kind, _ in basics)
    name = str(body.constant or f"a derived datatype of {', '.join(names)}")
    if not basics or any(not kind.constant or kind.constant in _BYTES for kind, _ in basics):
        return None, name
    return _row(basics, found.count), name


def _row(basics: list[tuple[TypeBody, int]], count: int) -> tuple[tuple[str, int], ...]:
    """Return the runs of equal elements in so many elements of a type, as far as they are compared."""
    if len(basics) == 1:
        return ((str(basics[0][0].code), basics[0][1] * count),)
    row: list[tuple[str, int]] = []
    for kind, times in (basics * min(count, _MOST_RUNS // len(basics) + 1))[:_MOST_RUNS]:
        if row and row[-1][0] == kind.code:
            row[-1] = (row[-1][0], row[-1][1] + times)
        else:
            row.append((str(kind.code), times))
    return tuple(row)


def agree(sent: Elements, taken: Elements) -> bool:
    """Whether a message's elements are what its receiver takes them for, as far as either one goes."""
    if sent is None or taken is None:
        return True
    if isinstance(sent, str) or isinstance(taken, str):
        return sent == taken
    mine, theirs = list(sent[::-1]), list(taken[::-1])
    while mine and theirs:
        (kind, count), (other, number) = mine.pop(), theirs.pop()
        if kind != other:
            return False
        both = min(count, number)
        mine += [(kind, count - both)] if count > both else []
        theirs += [(other, number - both)] if number > both else []
    return True
