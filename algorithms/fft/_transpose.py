"""Shared parts of the transforms: transforms of whole axes, the exchange that makes another axis whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.datasets.matrices import offsets
from labkit.errors import DataError
from labkit.program.context import compute, phase
from labkit.program.sized import is_sized, sized

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

__all__ = ["Block", "require_part", "transform", "transpose"]

Block = NDArray[np.complex128]


def transform(block: Block, *axes: int) -> Block:
    """Transform whole axes of a block, and charge 5 n log n operations for each n numbers in a line."""
    for axis in axes:
        compute(flops=5.0 * block.size * math.log2(max(block.shape[axis], 1)))
    return block if is_sized(block) else np.fft.fftn(block, axes=axes)


def transpose(comm: Comm, block: Block, whole: int, cut: int, length: int) -> Block:
    """Cut a whole axis into one part per rank, and make one whole that was cut and has this length."""
    with phase("transpose"):
        shape, me = list(block.shape), comm.rank
        cuts, parts = offsets(shape[whole], comm.size), np.diff(offsets(length, comm.size))
        rest = block.size // max(shape[whole], 1)
        going = np.diff(cuts) * rest
        mine = int(cuts[me + 1] - cuts[me])
        across = math.prod(size for axis, size in enumerate(shape) if axis not in (whole, cut)) * mine
        coming = parts * across
        shape[whole], shape[cut] = mine, length
        if is_sized(block):
            comm.Alltoallv([block.reshape(-1), going], [sized(int(coming.sum()), block.dtype), coming])
            return sized(math.prod(shape), block.dtype).reshape(shape)
        pieces = np.split(block, cuts[1:-1], axis=whole)
        arrived = np.empty(int(coming.sum()), block.dtype)
        comm.Alltoallv([np.concatenate([piece.ravel() for piece in pieces]), going], [arrived, coming])
        ends = np.cumsum(coming)
        got = [arrived[end - size : end] for size, end in zip(coming, ends, strict=True)]
        shapes = [[*shape[:cut], int(part), *shape[cut + 1 :]] for part in parts]
        return np.concatenate([one.reshape(form) for one, form in zip(got, shapes, strict=True)], axis=cut)


def require_part(block: Any, wanted: Sequence[int], name: str) -> Block:
    """Return a block as complex numbers; refuse one of another shape."""
    found = block if is_sized(block) else np.asarray(block)
    if tuple(found.shape) != tuple(wanted):
        raise DataError(
            f"{name}: this rank's block must have the shape {tuple(wanted)}, got {found.shape}",
            code="count-mismatch",
        )
    return found if is_sized(found) else found.astype(np.complex128)
