"""Shared parts of the multiplications: the local product, blocks that can be sent, the agreement on sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.program.context import compute
from labkit.program.sized import is_sized, sized

__all__ = ["Matrix", "add_product", "empty_like", "require_block", "require_equal", "sendable", "square_side"]

Matrix = NDArray[Any]


def add_product(c: Matrix, a: Matrix, b: Matrix) -> None:
    """Add a b to c, and charge 2 m k n operations; blocks without content are charged only."""
    compute(flops=2.0 * a.shape[0] * a.shape[1] * b.shape[1])
    if not is_sized(c):
        c += a @ b


def empty_like(a: Matrix, rows: int, columns: int, b: Matrix | None = None) -> Matrix:
    """Return a matrix of zeros of a's kind: without content if a has none."""
    if is_sized(a):
        return sized(rows * columns, a.dtype).reshape(rows, columns)
    return np.zeros((rows, columns), a.dtype if b is None else np.result_type(a, b))


def sendable(a: Matrix) -> Matrix:
    """Return a part of a block as MPI can send it: contiguous."""
    return empty_like(a, *a.shape) if is_sized(a) else np.ascontiguousarray(a)


def require_block(a: Any, name: str) -> Matrix:
    """Return a block; refuse what is not a matrix of numbers."""
    block = a if is_sized(a) else np.asarray(a)
    if block.ndim != 2 or block.dtype.kind not in "iufc":
        raise DataError(
            f"{name} must be a block of a matrix of numbers, such as an array of shape (3, 4), "
            f"got {block.dtype} of shape {block.shape}",
            code="wrong-type",
        )
    return block


def require_equal(sizes: Sequence[object], what: str) -> None:
    """Refuse blocks that do not fit together."""
    if len(set(sizes)) > 1:
        raise DataError(f"{what} must be the same, got {', '.join(map(str, sizes))}", code="count-mismatch")


def square_side(ranks: int, algorithm: str, instead: str) -> int:
    """Return the side of the square grid; refuse another number of ranks."""
    side = math.isqrt(ranks)
    if side * side != ranks:
        raise DataError(
            f"{algorithm} needs a square number of ranks (1, 4, 9, ...), got {ranks}; {instead}",
            code="count-mismatch",
        )
    return side
