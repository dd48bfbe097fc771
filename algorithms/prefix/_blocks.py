"""Shared parts of the prefix sums: a rank's block, checked; additions, counted and charged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.datasets.matrices import offsets
from labkit.errors import DataError
from labkit.program.context import compute, count

__all__ = ["Numbers", "charge_additions", "require_block", "running_sums"]

Numbers = NDArray[Any]


def require_block(values: Any, n: int, rank: int, ranks: int) -> tuple[Numbers, NDArray[np.int64]]:
    """Return a copy of this rank's block, and where the blocks of all ranks begin; refuse another length."""
    found = np.array(values)
    if n < 0:
        raise DataError(f"n must be at least 0, got {n}", code="out-of-range")
    edges = offsets(n, ranks)
    length = int(edges[rank + 1] - edges[rank])
    if found.shape != (length,) or found.dtype.kind not in "iuf":
        raise DataError(
            f"rank {rank} of {ranks} must have {length} of {n} numbers, "
            f"got {found.dtype} of shape {found.shape}",
            code="count-mismatch",
        )
    return found, edges


def charge_additions(additions: int) -> None:
    """Count additions, and charge one operation for each."""
    count("additions", additions)
    compute(flops=float(additions))


def running_sums(values: Numbers) -> Numbers:
    """Return the inclusive prefix sums of an array, of its type; charge the additions."""
    charge_additions(max(len(values) - 1, 0))
    return np.cumsum(values, dtype=values.dtype)
