"""Graphs as lists of edges: each rank makes its share, and the graph is the same for any number of ranks.

Two extremes: R-MAT graphs have a few vertices of very high degree and a diameter of a few edges, as social
networks do; grids have four neighbors at most and a diameter that grows with the side, as road networks do.

Reference
    D. Chakrabarti, Y. Zhan, C. Faloutsos: R-MAT: a recursive model for graph mining. SIAM Int. Conf. on
    Data Mining (2004), doi:10.1137/1.9781611972740.43. The parameters are those of the Graph500 benchmark.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labkit.datasets.matrices import mixed, offsets
from labkit.errors import DataError

__all__ = ["grid", "rmat", "weights"]

Edges = NDArray[np.int64]


def rmat(scale: int, rank: int, ranks: int, *, degree: int = 16, seed: int = 0) -> Edges:
    """Return this rank's edges of an R-MAT graph.

    Parameters
    ----------
    scale : int
        The graph has 2^scale vertices, whose numbers are permuted.
    rank, ranks : int
    degree : int
        The graph has degree 2^scale edges; loops and repeated edges among them.
    seed : int
        Chooses the graph.

    Returns
    -------
    ndarray of int64, shape (m, 2)
        Undirected edges, each once.

    Raises
    ------
    DataError
        Unless the scale is 0 to 40.
    """
    if not 0 <= scale <= 40:
        raise DataError(f"scale must be 0 to 40, got {scale}", code="out-of-range")
    numbers = np.arange(*offsets(degree << scale, ranks)[rank : rank + 2]).astype(np.uint64)
    ends = np.zeros((2, len(numbers)), np.int64)
    for level in range(scale):
        drawn = mixed(numbers * np.uint64(64) + np.uint64(level) + np.uint64(seed << 50)) >> np.uint64(11)
        part = drawn.astype(np.float64) / 2**53  # quarters of the adjacency matrix: 57, 19, 19 and 5 %
        ends = 2 * ends + np.array([part >= 0.76, ((part >= 0.57) & (part < 0.76)) | (part >= 0.95)])
    return _permuted(ends, scale, seed).T.copy()


def grid(rows: int, columns: int, rank: int, ranks: int) -> Edges:
    """Return this rank's edges of a grid; vertex ``i * columns + j`` has up to four neighbors.

    Examples
    --------
    >>> grid(2, 2, rank=0, ranks=1).tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """
    vertices = np.arange(rows * columns).reshape(rows, columns)
    right = np.column_stack([vertices[:, :-1].ravel(), vertices[:, 1:].ravel()])
    down = np.column_stack([vertices[:-1].ravel(), vertices[1:].ravel()])
    edges = np.concatenate([right, down])
    return edges[slice(*offsets(len(edges), ranks)[rank : rank + 2])]


def weights(edges: Edges, *, most: int = 255, seed: int = 0) -> NDArray[np.int64]:
    """Return a weight of 1 to `most` for each edge, the same for both directions."""
    low, high = edges.min(axis=1, initial=1 << 62), edges.max(axis=1, initial=-1)
    words = mixed((low << 32).astype(np.uint64) + high.astype(np.uint64) + np.uint64(seed << 56))
    return (words % np.uint64(most)).astype(np.int64) + 1


def _permuted(vertices: Edges, scale: int, seed: int) -> Edges:
    """Rename 2^scale vertices: multiplications by odd numbers and shifts, which are one to one."""
    if scale < 2:
        return vertices
    last = (1 << scale) - 1
    for odd in (0x9E3779B1, 0x85EBCA6B):
        vertices = (vertices * odd + seed + 12345) & last
        vertices = vertices ^ (vertices >> (scale // 2))
    return vertices
