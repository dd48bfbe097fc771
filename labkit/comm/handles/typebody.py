"""The body of a datatype: its layout, apart from its handles."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels
from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = [
    "NAMED",
    "TypeBody",
    "Typemap",
    "check_small",
    "complex_for",
    "count_of",
    "distributed",
    "integer_array",
    "integer_for",
    "length_of",
    "lengths_of",
    "matching",
    "order_of",
    "placed",
    "real_for",
    "subarray",
    "type_words",
    "united",
    "value_index",
]


NAMED = int(CONSTANTS["COMBINER_NAMED"])
_PARAMETRISED = tuple(int(CONSTANTS[f"COMBINER_F90_{kind}"]) for kind in ("INTEGER", "REAL", "COMPLEX"))

_NO_DTYPE = np.dtype("V0")


class TypeBody:
    """What a datatype is: shared by all handles of it.

    Attributes
    ----------
    constant : str or None
        Its name in the module, of predefined types.
    name, code, char : str
    combiner : int
        How it was made; `params` with what, by the names of the method's parameters, and of which types.
    inputs : list of TypeBody
    content : list of (TypeBody, int)
        Of how many elements of which types an element is made, in the order of packing.
    map : Typemap
    is_null : bool
        Whether it is DATATYPE_NULL.
    """

    __slots__ = (
        "attributes", "char", "code", "combiner", "constant", "content", "dtype", "inputs", "is_committed",
        "is_null", "map", "name", "params",
    )  # fmt: skip
    map: Typemap

    def __init__(self, constant: str | None, name: str, code: str, char: str) -> None:
        self.constant, self.name, self.code, self.char = constant, name, code, char
        self.is_null = constant == "DATATYPE_NULL"
        self.combiner = NAMED
        self.params: dict[str, Any] = {}
        self.inputs: list[TypeBody] = []
        self.content: list[tuple[TypeBody, int]] = []
        self.dtype: Any = _NO_DTYPE
        self.is_committed = False
        self.attributes: dict[int, Any] = {}

    @property
    def is_parametrised(self) -> bool:
        """Whether it is one of Fortran's types by precision."""
        return self.combiner in _PARAMETRISED

    def basics(self) -> list[tuple[TypeBody, int]]:
        """Return the basic types of an element and how many of each, in the order of packing."""
        if not self.content:
            return [(self, 1)] if self.map.size else []
        found: list[tuple[TypeBody, int]] = []
        for inner, times in self.content:
            parts = inner.basics()
            if len(parts) == 1:
                parts = [(parts[0][0], parts[0][1] * times)]
            else:
                parts = parts * times
            for kind, count in parts:
                if found and found[-1][0] is kind:
                    found[-1] = (kind, found[-1][1] + count)
                else:
                    found.append((kind, count))
        return found


def type_words(datatype: Any) -> str:
    """Return as text which datatype it is, of this module or of mpi4py's: its name, else what it is made of.

    >>> from labkit import MPI
    >>> type_words(MPI.INT), type_words(MPI.DOUBLE.Create_vector(6, 1, 5))
    ('MPI_INT', 'a derived datatype (VECTOR of MPI_DOUBLE, 48 bytes of data, extent 208 bytes)')
    """
    if not datatype:
        return "DATATYPE_NULL"
    if datatype.is_predefined or (datatype.name and not datatype.name.startswith("Dup ")):
        return str(datatype.name)
    inner, combiner, params = datatype.decode()
    parts = params.get("datatypes") or [inner]
    names = sorted({part.name or "derived datatypes" for part in parts})
    for part in parts:
        if not part.is_predefined:
            part.Free()  # its own handle: the datatype stays
    return (
        f"a derived datatype ({combiner} of {', '.join(names)}, {datatype.size} bytes of data, "
        f"extent {datatype.extent} bytes)"
    )


# Typemaps: the bytes of an element of a datatype, in the order in which they travel (MPI 4.1, 5.1).


_Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Typemap:
    """The bytes of one element.

    Attributes
    ----------
    offsets, lengths : numpy.ndarray, shape (runs,)
        Runs of bytes from the element's address on, in bytes, in the order in which they are packed.
    lb, ub : int
        Bounds; the next element begins ``ub - lb`` bytes later.
    alignment : int
        Of the strictest basic type in it; a bound that nobody has set is rounded up to it.
    has_bounds : bool
        Whether somebody has set the bounds (`Create_resized`); such bounds prevail over computed ones.
    """

    offsets: _Numbers
    lengths: _Numbers
    lb: int
    ub: int
    alignment: int = 1
    has_bounds: bool = False

    @classmethod
    def of_basic(cls, sizes: tuple[int, ...], places: tuple[int, ...], extent: int, align: int) -> Typemap:
        """Return the map of a basic type: its parts' sizes and places."""
        offsets, lengths = _merged(np.array(places, np.int64), np.array(sizes, np.int64))
        return cls(offsets, lengths, 0, extent, align)

    @property
    def extent(self) -> int:
        """Bytes from one element to the next."""
        return self.ub - self.lb

    @cached_property
    def size(self) -> int:
        """Bytes of data in an element."""
        return int(self.lengths.sum())

    def moved(self, place: int) -> Typemap:
        """Return the map of the same element `place` bytes further on."""
        low, high = self.lb + place, self.ub + place
        if not self.has_bounds:
            high += -(high - low) % self.alignment
        offsets = self.offsets + place if place else self.offsets
        return Typemap(offsets, self.lengths, low, high, self.alignment, self.has_bounds)

    @cached_property
    def true_bounds(self) -> tuple[int, int]:
        """Where the data begin and end."""
        if not len(self.offsets):
            return 0, 0
        return int(self.offsets.min()), int((self.offsets + self.lengths).max())

    @cached_property
    def is_dense(self) -> bool:
        """Whether elements in a row are one row of bytes that begins at the address."""
        return len(self.offsets) == 1 and self.offsets[0] == 0 and self.lengths[0] == self.extent

    @cached_property
    def layout(self) -> _kernels.Layout:
        """The compiled form, which packs and unpacks."""
        return _kernels.Layout(self.offsets, self.lengths, self.extent)

    def resized(self, lb: int, extent: int) -> Typemap:
        """Return the same bytes with other bounds."""
        return Typemap(self.offsets, self.lengths, lb, lb + extent, self.alignment, True)

    def span(self, count: int) -> tuple[int, int]:
        """Return where `count` elements begin and end, from their address on; (0, 0) without data."""
        if count == 0 or self.size == 0:
            return 0, 0
        low, high = self.true_bounds
        last = (count - 1) * self.extent
        return low + min(0, last), high + max(0, last)


_NOTHING = Typemap(np.empty(0, np.int64), np.empty(0, np.int64), 0, 0)

#: up to this number of runs a loop is faster than NumPy's calls: the structs that programs make of a record
_FEW = 32


def _merged(offsets: _Numbers, lengths: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Join runs that follow each other, in memory and in the order of packing."""
    if len(offsets) <= _FEW:
        return _merged_few(offsets, lengths)
    kept = lengths > 0
    if not kept.all():
        offsets, lengths = offsets[kept], lengths[kept]
    if len(offsets) < 2:
        return offsets, lengths
    is_first = np.ones(len(offsets), bool)
    is_first[1:] = offsets[:-1] + lengths[:-1] != offsets[1:]
    firsts = np.flatnonzero(is_first)
    return offsets[firsts], np.add.reduceat(lengths, firsts)


def _merged_few(offsets: _Numbers, lengths: _Numbers) -> tuple[_Numbers, _Numbers]:
    begins: list[int] = []
    sizes: list[int] = []
    end = None
    for begin, size in zip(offsets.tolist(), lengths.tolist(), strict=True):
        if size <= 0:
            continue
        if begin == end:
            sizes[-1] += size
        else:
            begins.append(begin)
            sizes.append(size)
        end = begin + size
    if len(begins) == len(offsets):
        return offsets, lengths
    return np.array(begins, np.int64), np.array(sizes, np.int64)


def placed(inner: Typemap, places: _Numbers, counts: _Numbers) -> Typemap:
    """Return the map of blocks: ``counts[i]`` elements in a row, the first one at byte ``places[i]``."""
    if len(counts) == 1 and counts[0] == 1:
        return inner.moved(int(places[0]))
    kept = counts > 0
    if not kept.all():
        places, counts = places[kept], counts[kept]
    if not len(places):
        return _NOTHING
    offsets, lengths = _runs(inner, places, counts)
    low, high = _bounds(inner, places, counts)
    return Typemap(offsets, lengths, low, high, inner.alignment, inner.has_bounds)


def _runs(inner: Typemap, places: _Numbers, counts: _Numbers) -> tuple[_Numbers, _Numbers]:
    if len(inner.offsets) == 1 and inner.lengths[0] == inner.extent:
        return _merged(places + inner.offsets[0], counts * inner.extent)
    if not len(inner.offsets):
        return inner.offsets, inner.lengths
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = np.repeat(places, counts) + within * inner.extent
    offsets = (begins[:, None] + inner.offsets[None, :]).ravel()
    return _merged(offsets, np.tile(inner.lengths, len(begins)))


def _bounds(inner: Typemap, places: _Numbers, counts: _Numbers) -> tuple[int, int]:
    lasts = places + (counts - 1) * inner.extent
    low = int(np.minimum(places, lasts).min()) + inner.lb
    high = int(np.maximum(places, lasts).max()) + inner.ub
    return low, _padded(low, high, inner)


def _padded(low: int, high: int, like: Typemap) -> int:
    """Round the upper bound up to the alignment, unless it was set."""
    return high if like.has_bounds else high + -(high - low) % like.alignment


def united(parts: list[Typemap]) -> Typemap:
    """Return the map of several, one after the other in the order of packing: a struct."""
    parts = [part for part in parts if len(part.offsets) or part.extent or part.has_bounds]
    if not parts:
        return _NOTHING
    offsets, lengths = _merged(
        np.concatenate([part.offsets for part in parts]), np.concatenate([part.lengths for part in parts])
    )
    given = [part for part in parts if part.has_bounds]
    low = min(part.lb for part in given or parts)
    high = max(part.ub for part in given or parts)
    alignment = max(part.alignment for part in parts)
    if not given:
        high += -(high - low) % alignment
    return Typemap(offsets, lengths, low, high, alignment, bool(given))


# Derived datatypes: the numbers that their constructors take, and the typemaps that they make.


_ERR_COUNT, _ERR_TYPE, _ERR_ARG = 2, 3, 13


def count_of(value: Any, what: str) -> int:
    """Return a count; ERR_COUNT below 0."""
    number = int(value)
    if number < 0:
        raise MPIException(_ERR_COUNT, f"{what}={number}: it is 0 or more")
    return number


def check_small(numbers: Sequence[int]) -> None:
    """Refuse what MPI libraries that count in an int cannot take."""
    if len(numbers) and not (min(numbers) >= -(2**31) and max(numbers) < 2**31):
        raise MPIException(_ERR_ARG, f"{max(numbers, key=abs)} does not fit into an int of C")


def length_of(value: Any) -> int:
    """Return the length of a block; ERR_ARG below 0."""
    number = int(value)
    if number < 0:
        raise MPIException(_ERR_ARG, f"blocklength={number}: it is 0 or more")
    return number


def lengths_of(values: Sequence[int]) -> NDArray[np.int64]:
    """Return the lengths of blocks; ERR_ARG below 0."""
    lengths = integer_array(values)
    if len(lengths) and lengths.min() < 0:
        raise MPIException(_ERR_ARG, f"blocklengths={lengths.tolist()}: they are 0 or more")
    return lengths


def integer_array(values: Sequence[int], count: int | None = None) -> NDArray[np.int64]:
    """Return integers as an array, `count` of them if that is given."""
    numbers = np.array([operator.index(value) for value in values], np.int64)
    if count is not None and len(numbers) != count:
        raise ValueError(f"expecting {count} items, got {len(numbers)}")
    return numbers


def order_of(order: int) -> int:
    """Return ORDER_C or ORDER_F; ERR_ARG for anything else."""
    if order not in (CONSTANTS["ORDER_C"], CONSTANTS["ORDER_F"]):
        raise MPIException(_ERR_ARG, f"order={order} is neither ORDER_C nor ORDER_F")
    return int(order)


# Fortran's types by precision, class or size, and pairs: the names of the types that there are.


#: decimal digits that an integer of a type has
_INTEGERS = ((2, "INTEGER1"), (4, "INTEGER2"), (9, "INTEGER4"), (18, "INTEGER8"))
#: decimal digits and range of exponents of a real
_REALS = ((6, 37, "REAL4"), (15, 307, "REAL8"), (18, 4931, "REAL16"))
_COMPLEX = {"REAL4": "COMPLEX8", "REAL8": "COMPLEX16", "REAL16": "COMPLEX32"}
_MATCHES = {
    "INTEGER": {1: "INTEGER1", 2: "INTEGER2", 4: "INTEGER", 8: "INTEGER8"},
    "REAL": {4: "REAL", 8: "REAL8", 16: "REAL16"},
    "COMPLEX": {8: "COMPLEX", 16: "COMPLEX16", 32: "COMPLEX32"},
    "LOGICAL": {1: "LOGICAL1", 2: "LOGICAL2", 4: "LOGICAL", 8: "LOGICAL8"},
}


def integer_for(digits: int) -> str:
    """Return the smallest integer with this number of digits; ERR_ARG if there is no such type."""
    for most, name in _INTEGERS:
        if digits <= most:
            return name
    raise MPIException(_ERR_ARG, f"no integer has {digits} decimal digits; the longest has 18")


def real_for(digits: int, exponents: int) -> str:
    """Return the smallest real of a precision and range; ERR_ARG if there is no such type."""
    for most, widest, name in _REALS:
        if digits <= most and exponents <= widest:
            return name
    raise MPIException(_ERR_ARG, f"no real has {digits} digits and exponents to {exponents}")


def complex_for(digits: int, exponents: int) -> str:
    """Return the smallest complex number of a precision and range."""
    return _COMPLEX[real_for(digits, exponents)]


def matching(typeclass: int, size: int) -> str:
    """Return the type of a class with this number of bytes; ERR_ARG if there is no such type."""
    for name, sizes in _MATCHES.items():
        if typeclass == CONSTANTS[f"TYPECLASS_{name}"] and size in sizes:
            return sizes[size]
    raise MPIException(_ERR_ARG, f"no type of class {typeclass} has {size} bytes")


def value_index(value: str | None, index: str | None) -> str:
    """Return the pair of two types; DATATYPE_NULL where MPI has none."""
    pairs = {"FLOAT": "FLOAT_INT", "DOUBLE": "DOUBLE_INT", "LONG": "LONG_INT", "INT": "TWOINT"}
    pairs |= {"SHORT": "SHORT_INT", "LONG_DOUBLE": "LONG_DOUBLE_INT"}
    return pairs.get(value or "", "DATATYPE_NULL") if index == "INT" else "DATATYPE_NULL"


# Parts of arrays as typemaps: subarrays and distributed arrays (MPI 4.1, sections 5.1.3 and 5.1.4).


_BLOCK, _CYCLIC, _NONE = (int(CONSTANTS[f"DISTRIBUTE_{way}"]) for way in ("BLOCK", "CYCLIC", "NONE"))
_DEFAULT = int(CONSTANTS["DISTRIBUTE_DFLT_DARG"])


def subarray(
    inner: Typemap, sizes: list[int], subsizes: list[int], starts: list[int], is_c_order: bool
) -> Typemap:
    """Return the map of a part of an array."""
    for size, part, start in zip(sizes, subsizes, starts, strict=True):
        if size < 1 or not 1 <= part <= size or not 0 <= start <= size - part:
            raise MPIException(
                _ERR_ARG, f"a part of {part} from {start} on is not in a dimension of {size} elements"
            )
    if not sizes:
        return placed(inner, np.zeros(0, np.int64), np.zeros(0, np.int64))
    indices = [np.arange(start, start + part) for start, part in zip(starts, subsizes, strict=True)]
    return _of_indices(inner, sizes, indices, is_c_order)


def distributed(
    inner: Typemap,
    size: int,
    rank: int,
    axes: tuple[list[int], list[int], list[int], list[int]],
    is_c_order: bool,
) -> Typemap:
    """Return the map of a rank's part of a distributed array."""
    shape, ways, blocks, grid = axes
    if math.prod(grid) != size or not 0 <= rank < size or min([*shape, *grid, 1]) < 1:
        raise MPIException(_ERR_ARG, f"rank {rank} of {size} has no place in a grid {grid}")
    indices = []
    for axis in range(len(shape) - 1, -1, -1):
        rank, place = divmod(rank, grid[axis])
        indices.append(_share(shape[axis], ways[axis], blocks[axis], grid[axis], place))
    return _of_indices(inner, shape, indices[::-1], is_c_order)


def _share(length: int, way: int, block: int, ranks: int, place: int) -> NDArray[np.int64]:
    """Return the indices that a rank of a grid's dimension has."""
    if way == _NONE:
        if ranks != 1:
            raise MPIException(_ERR_ARG, f"a dimension that is not distributed is given {ranks} ranks")
        return np.arange(length)
    if way == _BLOCK:
        width = -(-length // ranks) if block == _DEFAULT else block
        if width < 1 or width * ranks < length:
            raise MPIException(_ERR_ARG, f"blocks of {block} on {ranks} ranks do not hold {length} elements")
        return np.arange(place * width, min(length, (place + 1) * width))
    if way == _CYCLIC:
        width = 1 if block == _DEFAULT else block
        if width < 1:
            raise MPIException(_ERR_ARG, f"blocks have 1 element or more, not {block}")
        return np.flatnonzero(np.arange(length) // width % ranks == place)
    raise MPIException(_ERR_ARG, f"{way} is no way to distribute: use DISTRIBUTE_BLOCK, _CYCLIC or _NONE")


def _of_indices(
    inner: Typemap, shape: list[int], indices: list[NDArray[np.int64]], is_c_order: bool
) -> Typemap:
    """Return the map of all elements with these indices; its extent is the whole array's."""
    stride, made = inner.extent, inner
    for axis in range(len(shape) - 1, -1, -1) if is_c_order else range(len(shape)):
        made = placed(made, indices[axis] * stride, np.ones(len(indices[axis]), np.int64))
        stride *= shape[axis]
    return made.resized(0, inner.extent * math.prod(shape))
