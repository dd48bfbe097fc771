"""Partition by orthogonal recursive bisection: cut the box across its longer side, then both halves again.

All boxes of a level are cut at the same time. A box of k ranks is cut so that floor(k / 2) / k of its costs
are on the left. After ceil(log2 p) levels each rank has a rectangle.

Cost, for m points on a rank, p ranks::

    cuts        9 allreduces in each of log p levels, of at most 15 p / 2 integers
    move        one exchange of all ranks with all others

Requires: nothing. Any p, any m; a rank may have no point.

Properties
    Each cut differs from the share it was made for by at most half of the costs of the points that have the
    same coordinate (to one part in 2^32 of the box). Rectangles: few neighbors, easy to draw.

Reference
    M. J. Berger, S. H. Bokhari: A partitioning strategy for nonuniform problems on multiprocessors. IEEE
    Transactions on Computers C-36 (1987), doi:10.1109/TC.1987.1676942.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.partition.bisection import bisection
>>> def program(comm):
...     points = np.array([[0, comm.rank], [4, comm.rank]]) / 1.0
...     return bisection(comm, points, [1, 1], points).tolist()
>>> lk.run(program, 2, on="star:2").results
[[[0.0, 0.0], [0.0, 1.0]], [[4.0, 0.0], [4.0, 1.0]]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit import MPI
from labkit.algorithms.graphs._distributed import exchange
from labkit.algorithms.partition._cuts import Costs, Plane, find_cuts, require_points
from labkit.program.context import compute, phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "bisection", "cost"]


def bisection(comm: Intracomm, positions: ArrayLike, costs: ArrayLike, rows: ArrayLike) -> Plane:
    """Return the rows of the points that are this rank's afterwards.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    positions : array_like, shape (m, 2)
        Of this rank's points.
    costs : array_like of int, shape (m,)
        What each point costs, at least 0.
    rows : array_like, shape (m, k)
        Numbers that travel with each point.

    Returns
    -------
    ndarray of float64, shape (new m, k)

    Raises
    ------
    DataError
        If shapes do not fit.
    """
    points, weights, carried = require_points(positions, costs, rows)
    first = np.zeros(len(points), np.int64)  # the first rank of the group that has a point
    groups = np.array([[0, comm.size]])  # first ranks, and how many
    with phase("cuts"):
        while (groups[:, 1] > 1).any():
            groups, first = _halved(comm, points, weights, groups, first)
    with phase("move"):
        return exchange(comm, carried, first)


def _halved(
    comm: Intracomm, points: Plane, weights: Costs, groups: NDArray[np.int64], first: Costs
) -> tuple[NDArray[np.int64], Costs]:
    """Cut the box of each group of more than one rank; return the new groups, and each point's first rank."""
    large = groups[groups[:, 1] > 1]
    group = np.searchsorted(large[:, 0], first, "right") - 1
    inside = (group >= 0) & (first == large[np.maximum(group, 0), 0])
    ends = np.full((len(large), 4), -np.inf)
    np.maximum.at(ends, group[inside], np.column_stack([-points[inside], points[inside]]))
    comm.Allreduce(MPI.IN_PLACE, ends, op=MPI.MAX)
    ends = np.where(np.isfinite(ends), ends, 0.0)  # a group without points has no box
    low, high = -ends[:, :2], ends[:, 2:]
    axis = np.argmax(high - low, axis=1)
    cut = np.arange(len(large))
    low, high = low[cut, axis], np.nextafter(high[cut, axis], np.inf)
    places = np.flatnonzero(inside)
    along = points[places, axis[group[places]]]
    order = np.lexsort([along, group[places]])
    places, along = places[order], along[order]
    compute(flops=2.0 * len(places) * ceil_log2(max(len(places), 1)))
    begin = np.searchsorted(group[places], np.arange(len(large) + 1))
    sums = np.concatenate([[0], np.cumsum(weights[places])])

    def below(at: Plane) -> Costs:
        counts = [np.searchsorted(along[a:b], one) for a, b, one in zip(begin, begin[1:], at, strict=False)]
        found: Costs = sums[begin[:-1, None] + np.array(counts)] - sums[begin[:-1, None]]
        return found

    total = sums[begin[1:]] - sums[begin[:-1]]
    comm.Allreduce(MPI.IN_PLACE, total, op=MPI.SUM)
    left = large[:, 1] // 2
    found = find_cuts(comm, below, low, high, left / large[:, 1] * total, total)
    first = first.copy()
    first[places] += np.where(along >= found[group[places]], left[group[places]], 0)
    halves = np.concatenate(
        [
            np.column_stack([large[:, 0], left]),
            np.column_stack([large[:, 0] + left, large[:, 1] - left]),
            groups[groups[:, 1] == 1],
        ]
    )
    return halves[np.argsort(halves[:, 0])], first


def cost(ranks: int, n_bytes: float) -> Cost:
    """Bound the messages and bytes of a rank with `n_bytes` of rows."""
    levels = ceil_log2(ranks)
    return Cost(
        10 * levels**2 + 2 * (ranks - 1),
        levels**2 * (8 * 60 + 48) * ranks + 16 * ranks + n_bytes,
        is_bound=True,
    )


ALGORITHM = Algorithm(
    "bisection",
    "partition",
    function=bisection,
    cost=cost,
    expectations={"cuts": "p log p", "move": "p", "": "p log p"},
)
