"""The adaptive grid: each dimension cut into intervals of about even density, and the dense ones kept."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.local.costs import charge

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Interval", "adaptive_grid", "bitmaps"]

#: cells of a dimension's histogram, and cells of a window
FINE, WINDOW = 200, 5
#: where no two windows differ, a dimension is cut into so many intervals
EVEN = 5
#: bits of a word of a bitmap
WORD = 64


class Interval(NamedTuple):
    """A dense interval of one dimension.

    Attributes
    ----------
    dimension : int
    begin, end : float
    threshold : float
        Points that a unit with this interval needs to be dense.
    """

    dimension: int
    begin: float
    end: float
    threshold: float


def adaptive_grid(comm: Intracomm, points: NDArray[np.float64], alpha: float, beta: float) -> list[Interval]:
    """Return the dense intervals of all dimensions, in order.

    Neighboring windows of the histogram are merged where their fullest cells differ by at most a share
    `beta`. An interval is dense if it has `alpha` times the points that evenly spread ones would give it.
    """
    from labkit import MPI

    d = points.shape[1]
    low, high = points.min(axis=0, initial=np.inf), points.max(axis=0, initial=-np.inf)
    comm.Allreduce(MPI.IN_PLACE, low, op=MPI.MIN)
    comm.Allreduce(MPI.IN_PLACE, high, op=MPI.MAX)
    width = np.where(high > low, high - low, 1.0) / FINE
    cells = np.minimum(((points - low) / width).astype(np.int64), FINE - 1)
    charge("histogram", 8, cells.size, FINE)
    counts = np.bincount((cells + np.arange(d) * FINE).ravel(), minlength=d * FINE).astype(np.int64)
    comm.Allreduce(MPI.IN_PLACE, counts, op=MPI.SUM)
    n = int(counts[:FINE].sum())
    dense = []
    for dimension, histogram in enumerate(counts.reshape(d, FINE)):
        cuts = _cuts(histogram, beta)
        for first, last in pairwise(cuts):
            threshold = alpha * n * (last - first) / FINE
            if histogram[first:last].sum() > threshold:
                begin, end = (float(low[dimension] + cell * width[dimension]) for cell in (first, last))
                dense.append(Interval(dimension, begin, end, threshold))
    return dense


def _cuts(histogram: NDArray[np.int64], beta: float) -> list[int]:
    """Return the cells at which a dimension is cut, both ends included."""
    peaks = histogram.reshape(-1, WINDOW).max(axis=1)
    cuts, peak = [0], int(peaks[0])
    for window, value in enumerate(peaks[1:].tolist(), 1):
        if abs(value - peak) > beta * max(value, peak):
            cuts.append(window * WINDOW)
            peak = value
        else:
            peak = max(peak, value)
    if len(cuts) == 1:
        return [i * FINE // EVEN for i in range(EVEN + 1)]
    return [*cuts, FINE]


def bitmaps(points: NDArray[np.float64], intervals: list[Interval]) -> NDArray[np.uint64]:
    """Return a row of bits for each interval: which of this rank's points lie in it."""
    rows = np.zeros((len(intervals), -(-len(points) // WORD) * WORD), bool)
    for row, (dimension, begin, end, _) in zip(rows, intervals, strict=True):
        values = points[:, dimension]
        row[: len(points)] = (values >= begin) & (values < end)
    charge("code", 8, len(intervals) * len(points))
    return np.packbits(rows, axis=1).view(np.uint64)
