"""The bytes that an access of a window touches: an interval, equal pieces at a stride, or any pieces.

A column of a matrix is one description, however many rows it has; whether two of the same stride meet is
arithmetic on four numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple
from labkit.comm.handles.typemap import Typemap
from labkit.comm.typed import data_bytes, is_dense

__all__ = ["Footprint", "Pieces", "footprint_of", "meet"]

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
    """Return which bytes of its memory are touched, by so many bytes of data; `base` is added to all."""
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
    """Return the first bytes that both touch: where they begin and end; None where there are none.

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
