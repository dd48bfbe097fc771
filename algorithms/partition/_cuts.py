"""Shared parts of partitions: points where a share of all costs is reached, keys of space-filling curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit import MPI
from labkit.errors import DataError
from labkit.program.context import compute

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["BITS", "Costs", "Plane", "bounding_box", "curve_keys", "find_cuts", "require_points"]

Plane = NDArray[np.float64]
Costs = NDArray[np.int64]

#: bits of a coordinate in a key: 65,536 steps
BITS = 16
#: an interval is cut into this number of parts in each round of a search
_PARTS = 16


def require_points(positions: ArrayLike, costs: ArrayLike, rows: ArrayLike) -> tuple[Plane, Costs, Plane]:
    """Return points, costs and rows as arrays; refuse what does not fit together."""
    points, weights, carried = np.asarray(positions, np.float64), np.asarray(costs), np.asarray(rows)
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise DataError(
            f"positions must be finite numbers of shape (m, 2), got shape {points.shape}", code="not-finite"
        )
    m = len(points)
    if weights.shape != (m,) or (m and (weights.dtype.kind not in "iu" or weights.min() < 0)):
        raise DataError(
            f"costs must be {m} integers of at least 0, got {weights.dtype} of shape {weights.shape}",
            code="out-of-range",
        )
    if carried.ndim != 2 or len(carried) != m:
        raise DataError(
            f"rows must have {m} rows, one for each point, got shape {carried.shape}", code="count-mismatch"
        )
    return points, weights.astype(np.int64), carried.astype(np.float64)


def bounding_box(comm: Intracomm, points: Plane) -> Plane:
    """Return the least and the largest coordinates of all ranks' points: shape (2, 2)."""
    ends = np.full((2, 2), -np.inf)
    if len(points):
        ends = np.array([-points.min(0), points.max(0)])
    comm.Allreduce(MPI.IN_PLACE, ends, op=MPI.MAX)
    return ends * [[-1.0], [1.0]]


def curve_keys(points: Plane, box: Plane, curve: str = "morton") -> NDArray[np.int64]:
    """Return how far along a space-filling curve through the box each point is: 0 to 4^BITS - 1."""
    side = max(float((box[1] - box[0]).max()), np.finfo(float).tiny)
    steps = np.clip((points - box[0]) / side * 2**BITS, 0, 2**BITS - 1).astype(np.int64)
    x, y = steps[:, 0].copy(), steps[:, 1].copy()
    compute(flops=8.0 * BITS * len(points))
    keys = np.zeros(len(points), np.int64)
    for bit in reversed(range(BITS)):
        right, upper = x >> bit & 1, y >> bit & 1
        if curve == "morton":
            keys = keys << 2 | upper << 1 | right
            continue
        keys = keys << 2 | (3 * right ^ upper)
        is_lower = upper == 0
        is_turned = is_lower & (right == 1)
        x, y = np.where(is_turned, ~x, x), np.where(is_turned, ~y, y)
        x, y = np.where(is_lower, y, x), np.where(is_lower, x, y)
    return keys


def find_cuts(
    comm: Intracomm, below: Callable[[Plane], Costs], low: Plane, high: Plane, wanted: Plane, total: Costs
) -> Plane:
    """Return, for each wanted sum of costs, the place between low and high that has nearly that below it.

    ``below(places)`` returns this rank's costs below places of shape ``(cuts, 15)``; `total` are the costs of
    all ranks below `high`. Eight rounds, each an allreduce of 15 integers a cut: to one part in 2^32.
    """
    at_low, at_high = np.zeros(len(wanted)), total.astype(float)
    for _ in range(8):
        width = (high - low) / _PARTS
        places = low[:, None] + width[:, None] * np.arange(1, _PARTS)
        sums = below(places)
        comm.Allreduce(MPI.IN_PLACE, sums, op=MPI.SUM)
        reached = (sums <= wanted[:, None]).sum(1)
        known = np.column_stack([at_low, sums, at_high])
        cut = np.arange(len(wanted))
        at_low, at_high = known[cut, reached], known[cut, reached + 1]
        low, high = low + width * reached, low + width * (reached + 1)
    return np.where(wanted - at_low <= at_high - wanted, low, high)
