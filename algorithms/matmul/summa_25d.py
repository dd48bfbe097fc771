"""2.5D multiplication: c layers of ranks compute c parts of the sum, with c times the memory and fewer words.

The ranks are c layers of a grid. The first layer has A and B; each layer takes a c-th of the columns of A
and of the rows of B. So layer 0 sends each part of a block to the rank below it that takes it; each layer
multiplies its part by SUMMA and has a whole matrix of partial sums; one reduction from layer to layer adds
them up. With c = 1 this is SUMMA; with c = p^(1/3) it is the 3D algorithm.

Cost, for n x n matrices on p = c q^2 ranks, numbers of w bytes::

    agree         (2 log q + log c) alpha
    distribute    at most 2 (c / q + 1) messages of each rank of layer 0, 2 c n^2 / p w beta
    broadcast     2 (q / c) log q (alpha + (c n^2 / p) w beta): with a scatter and an allgather of the bytes
                  about 4 n^2 / sqrt(c p) w beta
    multiply      2 n^3 / p operations
    reduce        log c (alpha + (c n^2 / p) w beta), or 2 c n^2 / p w beta with Rabenseifner's reduction

Requires: c divides p. Any grid of the p / c ranks; a rank may have an empty block.

Properties
    Memory: a matrix of partial sums on every layer: c n^2 / p numbers per rank for C, besides panels and
    parts. Words: 2 n^2 / sqrt(c p) + O(c n^2 / p) per rank, for 1 <= c <= p^(1/3) within a constant of the
    lower bound for memory c n^2 / p. More layers than p^(1/3) move more words.

Reference
    E. Solomonik, J. Demmel: Communication-optimal parallel 2.5D matrix multiplication and LU factorization
    algorithms. Euro-Par 2011, doi:10.1007/978-3-642-23397-5_10. Without replicating A and B: M. D. Schatz,
    R. A. van de Geijn, J. Poulson: Parallel matrix multiplication: a systematic journey. SIAM J. Sci.
    Comput. 38 (2016), doi:10.1137/140993478. 3D: R. C. Agarwal, S. M. Balle, F. G. Gustavson, M. Joshi, P.
    Palkar: A three-dimensional approach to parallel matrix multiplication. IBM J. Res. Dev. 39 (1995),
    doi:10.1147/rd.395.0575.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.matmul.summa_25d import summa_25d
>>> from labkit.datasets import matrices
>>> def program(comm):
...     mine = matrices.block((2, 2), (2, 2), comm.rank) if comm.rank < 4 else None
...     return summa_25d(comm, mine, mine, layers=2)
>>> [block.item() for block in lk.run(program, 8, on="star:8").results[:4]]
[9.0, -1.0, 0.0, 16.0]
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.matmul._blocks import Matrix, empty_like, require_block, require_equal, sendable
from labkit.algorithms.matmul.summa import cost as of_one_layer
from labkit.algorithms.matmul.summa import panels, sum_of_panels
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "best_layers", "cost", "summa_25d"]


def best_layers(ranks: int) -> int:
    """Return the largest divisor of the ranks that is at most their cube root.

    Examples
    --------
    >>> [best_layers(ranks) for ranks in (1, 8, 16, 17, 64, 1024)]
    [1, 2, 2, 1, 4, 8]
    """
    return max(c for c in range(1, ranks + 1) if ranks % c == 0 and c**3 <= ranks)


def summa_25d(
    comm: Intracomm,
    a: Matrix | None,
    b: Matrix | None,
    *,
    layers: int | None = None,
    width: int | None = None,
) -> Matrix | None:
    """Multiply two matrices that are distributed in blocks over the first layer of the ranks.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one. Layer l has the ranks from l p / c on, in the grid of
        ``MPI.Compute_dims(p // c, 2)``.
    a, b : ndarray, shapes (m_i, k_j) and (k_i, n_j), or None
        On layer 0, this rank's blocks of A and B; not changed. Other layers pass None.
    layers : int, optional
        The number of layers c, a divisor of the number of ranks; default: `best_layers`.
    width : int, optional
        Most columns of A in a panel; default as in `summa`.

    Returns
    -------
    ndarray, shape (m_i, n_j), or None
        On layer 0, this rank's block of the product.

    Raises
    ------
    DataError
        If layers do not divide the ranks, a block of layer 0 is not a matrix, the blocks do not fit
        together, or the width is below 1.
    """
    from labkit import MPI

    c = best_layers(comm.size) if layers is None else layers
    if c < 1 or comm.size % c:
        raise DataError(f"layers must divide the number of ranks, {comm.size}, got {c}", code="out-of-range")
    if width is not None and width < 1:
        raise DataError(f"width must be at least 1, got {width}", code="out-of-range")
    cube = comm.Create_cart([c, *MPI.Compute_dims(comm.size // c, 2)])
    depth, row, column = (cube.Sub(kept) for kept in np.eye(3, dtype=bool)[[0, 2, 1]].tolist())
    layer = depth.rank
    with phase("agree"):
        if layer == 0:
            a, b = require_block(a, "a"), require_block(b, "b")
            rows, widths = zip(*row.allgather(a.shape), strict=True)
            heights, columns = zip(*column.allgather(b.shape), strict=True)
            require_equal(rows, f"the numbers of rows of A's blocks in row {cube.coords[1]} of the grid")
            require_equal(
                columns, f"the numbers of columns of B's blocks in column {cube.coords[2]} of the grid"
            )
            require_equal([sum(widths), sum(heights)], "the columns of A and the rows of B")
            sizes = (widths, heights, rows[0], columns[0], a[:0], b[:0])
        else:
            sizes = None
        widths, heights, m, n, like_a, like_b = depth.bcast(sizes, root=0)
    edges_a, edges_b = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in (widths, heights))
    ours = np.arange(c + 1) * edges_a[-1] // c  # where each layer's columns of A begin
    with phase("distribute"):
        a = _part(depth, a, np.clip(ours, *edges_a[row.rank : row.rank + 2]), like_a, m, axis=1)
        b = _part(depth, b, np.clip(ours, *edges_b[column.rank : column.rank + 2]), like_b, n, axis=0)
    low, high = ours[layer], ours[layer + 1]
    edges_a, edges_b = np.clip(edges_a, low, high), np.clip(edges_b, low, high)
    sums = empty_like(a, m, n, b)
    ranges = [(begin, end) for begin, end in panels(edges_a, edges_b, width) if begin >= low]
    sum_of_panels(row, column, a, b, sums, edges_a, edges_b, ranges)
    with phase("reduce"):
        total = empty_like(sums, m, n) if layer == 0 else None
        depth.Reduce(sums, total, root=0)
    for one in (depth, row, column, cube):
        one.Free()
    return total


def _part(
    depth: Any, block: Matrix | None, cuts: NDArray[np.int64], like: Matrix, other: int, axis: int
) -> Matrix:
    """Return this layer's part of a block of layer 0, cut along the axis; `other` is its other size."""

    def room(size: int) -> Matrix:
        return empty_like(like, other, size) if axis else empty_like(like, size, other)

    sizes = np.diff(cuts).tolist()
    if depth.rank or block is None:
        part = room(sizes[depth.rank])
        if part.size:
            depth.Recv(part, 0)
        return part
    ends = np.cumsum(sizes).tolist()
    parts = [
        sendable(block[:, end - size : end] if axis else block[end - size : end])
        for size, end in zip(sizes, ends, strict=True)
    ]
    for request in [depth.Isend(part, below) for below, part in enumerate(parts) if below and part.size]:
        request.Wait()
    return parts[0]


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict messages and bytes of a rank of layer 0 with `n_bytes` of A and of B, by binomial trees."""
    c = best_layers(ranks)
    if c == 1:
        return of_one_layer(ranks, n_bytes)
    q = math.sqrt(ranks / c)
    depth, height = ceil_log2(math.ceil(q)), ceil_log2(c)
    rounds = 2 * q / c * depth + 2 * depth + 2 * height + 2
    return Cost(rounds, (2 * q / c * depth + height + 2) * n_bytes, height * n_bytes, is_bound=True)


ALGORITHM = Algorithm("summa_25d", "matmul", function=summa_25d, cost=cost)
