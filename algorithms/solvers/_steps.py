"""Shared parts of conjugate gradients: charged vector operations, the result, checked arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit.errors import DataError
from labkit.program.context import compute

__all__ = ["Apply", "Solved", "Vector", "axpy", "dots", "require_system"]

Vector = NDArray[np.float64]
Apply = Callable[[Vector], Vector]


class Solved(NamedTuple):
    """The solution.

    Attributes
    ----------
    x : ndarray
        This rank's part.
    steps : int
        Iterations.
    residuals : list of float
        The norm of b - A x as the recurrence has it, before the first step and after each.
    """

    x: Vector
    steps: int
    residuals: list[float]


def axpy(scale: float, x: Vector, y: Vector) -> Vector:
    """Return scale x + y; charge two operations for each number."""
    compute(flops=2.0 * len(x))
    return scale * x + y


def dots(*pairs: tuple[Vector, Vector]) -> Vector:
    """Return this rank's parts of dot products; charge two operations for each number."""
    compute(flops=sum(2.0 * len(left) for left, _ in pairs))
    return np.array([left @ right for left, right in pairs])


def require_system(b: ArrayLike, tolerance: float, most_steps: int) -> Vector:
    """Return the right-hand side as numbers; refuse what no iteration can use."""
    found = np.asarray(b, np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise DataError(
            f"b must be finite numbers of one dimension, got shape {found.shape}", code="not-finite"
        )
    if not tolerance > 0:
        raise DataError(f"tolerance must be positive, got {tolerance}", code="out-of-range")
    if most_steps < 1:
        raise DataError(f"most_steps must be at least 1, got {most_steps}", code="out-of-range")
    return found
