"""Points with clusters planted in some of their dimensions: inputs of subspace clustering.

Nine tenths of the points belong to a cluster, evenly; the others are noise. A point of a cluster lies in a
narrow interval of each of the cluster's dimensions and anywhere in [0, 1) in all others. The intervals of
different clusters in one dimension do not meet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError

__all__ = ["WIDTH", "Planted", "planted"]

#: length of a cluster's intervals; they begin at multiples of a quarter of it
WIDTH = 0.1
_MOST_CLUSTERS = 6


class Planted(NamedTuple):
    """Points of one rank, and the clusters that all of them have.

    Attributes
    ----------
    points : ndarray of float64, shape (n_local, d)
    clusters : list of dict
        Of each cluster: dimension -> where its interval begins; it is `WIDTH` long.
    """

    points: NDArray[np.float64]
    clusters: list[dict[int, float]]


def planted(
    rank: int, ranks: int, n: int = 100_000, d: int = 20, clusters: int = 3, k: int = 5, seed: int = 0
) -> Planted:
    """Make this rank's block of n points in d dimensions with clusters in k of them.

    Parameters
    ----------
    rank, ranks : int
    n, d, clusters, k : int
        Points in all, dimensions, planted clusters (at most 6), dimensions of each cluster.
    seed : int

    Returns
    -------
    Planted
        The points of all ranks together are the same for any number of ranks.

    Raises
    ------
    DataError
        Fewer points than ranks, more cluster dimensions than dimensions, too many clusters.

    Examples
    --------
    >>> found = planted(0, 2, n=40, d=4, clusters=2, k=2)
    >>> found.points.shape, [sorted(cluster) for cluster in found.clusters]
    ((20, 4), [[0, 1], [1, 2]])
    """
    if not 1 <= clusters <= _MOST_CLUSTERS:
        raise DataError(f"clusters must be 1 to {_MOST_CLUSTERS}, got {clusters}", code="out-of-range")
    if not 1 <= k <= d:
        raise DataError(f"k must be 1 to d={d}, the dimensions of the points, got {k}", code="out-of-range")
    if not 0 <= rank < ranks <= n:
        raise DataError(
            f"{n} points on {ranks} ranks, of which this is number {rank}: each has at least one",
            code="count-mismatch",
        )
    first, last = rank * n // ranks, (rank + 1) * n // ranks
    bits = np.random.PCG64(seed).advance(first * d)
    words = bits.random_raw((last - first) * d) >> np.uint64(11)
    points = words.reshape(-1, d).astype(np.float64) * 2.0**-53
    step = WIDTH / 4
    found = []
    for number in range(clusters):
        begin = round((number + 0.2) / clusters / step) * step
        dimensions = [(number * d // (2 * clusters) // max(1, d // k) + i) % d for i in range(k)]
        found.append(dict.fromkeys(dimensions, begin))
    turn = np.arange(first, last) % (10 * clusters)
    for number, cluster in enumerate(found):
        mine = (turn < 9 * clusters) & (turn % clusters == number)
        for dimension, begin in cluster.items():
            points[mine, dimension] = begin + WIDTH * points[mine, dimension]
    return Planted(points, found)
