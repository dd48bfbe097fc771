"""Derived datatypes: the numbers that their constructors take, and the typemaps that they make."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.typebody import Typemap, placed

__all__ = [
    "check_small",
    "complex_for",
    "count_of",
    "distributed",
    "integer_for",
    "length_of",
    "lengths_of",
    "matching",
    "numbers_of",
    "order_of",
    "real_for",
    "subarray",
    "value_index",
]


_ERR_COUNT, _ERR_TYPE, _ERR_ARG = 2, 3, 13


def count_of(value: Any, what: str) -> int:
    """Return a count; ERR_COUNT below 0."""
    number = int(value)
    if number < 0:
        raise MPIException(_ERR_COUNT, f"{what}={number}: it is 0 or more")
    return number


def check_small(numbers: Sequence[int]) -> None:
    """Refuse more pieces than MPI libraries count in an int."""
    if any(number >= 2**31 for number in numbers):
        raise MPIException(_ERR_ARG, f"{max(numbers)} is more than fits into an int of C")


def length_of(value: Any) -> int:
    """Return the length of a block; ERR_ARG below 0."""
    number = int(value)
    if number < 0:
        raise MPIException(_ERR_ARG, f"blocklength={number}: it is 0 or more")
    return number


def lengths_of(values: Sequence[int]) -> NDArray[np.int64]:
    """Return the lengths of blocks; ERR_ARG below 0."""
    lengths = numbers_of(values)
    if len(lengths) and lengths.min() < 0:
        raise MPIException(_ERR_ARG, f"blocklengths={lengths.tolist()}: they are 0 or more")
    return lengths


def numbers_of(values: Sequence[int], count: int | None = None) -> NDArray[np.int64]:
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
    """Return the smallest integer with this number of digits; ERR_ARG if there is none."""
    for most, name in _INTEGERS:
        if digits <= most:
            return name
    raise MPIException(_ERR_ARG, f"no integer has {digits} decimal digits; the longest has 18")


def real_for(digits: int, exponents: int) -> str:
    """Return the smallest real of a precision and range; ERR_ARG where there is none."""
    for most, widest, name in _REALS:
        if digits <= most and exponents <= widest:
            return name
    raise MPIException(_ERR_ARG, f"no real has {digits} digits and exponents to {exponents}")


def complex_for(digits: int, exponents: int) -> str:
    """Return the smallest complex number of a precision and range."""
    return _COMPLEX[real_for(digits, exponents)]


def matching(typeclass: int, size: int) -> str:
    """Return the type of a class with this number of bytes; ERR_ARG if there is none."""
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
