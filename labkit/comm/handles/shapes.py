"""Parts of arrays as typemaps: subarrays and distributed arrays (MPI 4.1, sections 5.1.3 and 5.1.4)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.typemap import Typemap, placed

__all__ = ["distributed", "subarray"]

_ERR_ARG = 13
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
