"""Cholesky factorization of a dense matrix in block-cyclic distribution over a grid of ranks.

For one panel of `width` columns after another: the rank that has the diagonal block factorizes it and sends
the factor to its column of the grid; that column solves for the panel below; the panel is broadcast along
the rows, and the parts that belong to a column's blocks are gathered there. Then all ranks update what is
left of the matrix. Blocks are dealt out cyclically, because the left part of the matrix is finished first:
ranks that had only that would be idle.

Cost, for n x n numbers of w bytes on a q x q grid, p = q^2, blocks of width s::

    panel       n/s times: s^3/3 operations on one rank, n s^2 / q on a column
    broadcast   n/s times: 2 broadcasts and an allgather in rows and columns: (n/s) 3 log q alpha,
                and about n^2 / q w beta in all
    update      n^3 / (3 p) operations, up to imbalance of about s q / n

Requires: nothing. Any p, n, and width; a rank may have no block. The matrix must be positive definite.

Properties
    No pivots are needed. Narrow blocks: even loads and many messages; wide ones: few messages, idle ranks.
    With ``width >= n / q`` each rank has one block, and most are idle in the end.

Reference
    J. Choi, J. J. Dongarra, L. S. Ostrouchov, A. P. Petitet, D. W. Walker, R. C. Whaley: Design and
    implementation of the ScaLAPACK LU, QR, and Cholesky factorization routines. Scientific Programming 5
    (1996), doi:10.1155/1996/483083.

Examples
--------
The factor of the matrix min(i, j) + 1 has only ones.

>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.solvers.cholesky import cholesky, cyclic
>>> def program(comm):
...     rows, columns = cyclic(3, 1, (2, 2), comm.rank)
...     return cholesky(comm, np.minimum.outer(rows, columns) + 1.0, 3, 1).tolist()
>>> lk.run(program, 4, on="star:4").results
[[[1.0, 0.0], [1.0, 1.0]], [[0.0], [1.0]], [[1.0, 0.0]], [[1.0]]]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.program.context import compute, phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

__all__ = ["ALGORITHM", "cholesky", "cost", "cyclic"]

Matrix = NDArray[np.float64]
Indices = NDArray[np.int64]


def cyclic(n: int, width: int, grid: tuple[int, int], rank: int) -> tuple[Indices, Indices]:
    """Return the rows and the columns of a matrix that a rank of a grid has.

    Parameters
    ----------
    n, width : int
        Rows and columns of the matrix, and of a block.
    grid : tuple of int
        Rows and columns of the grid of ranks; rank r has row ``r // grid[1]`` and column ``r % grid[1]``.
    rank : int

    Examples
    --------
    >>> [one.tolist() for one in cyclic(10, 2, (2, 3), rank=1)]
    [[0, 1, 4, 5, 8, 9], [2, 3, 8, 9]]
    """
    every = np.arange(n)
    row, column = divmod(rank, grid[1])
    return every[every // width % grid[0] == row], every[every // width % grid[1] == column]


def cholesky(comm: Any, a: Matrix, n: int, width: int) -> Matrix:
    """Return this rank's part of the lower triangular L with A = L L^T.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one. The grid is the one of ``MPI.Compute_dims(comm.size, 2)``; a Cartesian
        communicator of two dimensions brings its own.
    a : ndarray, shape (rows, columns)
        This rank's part of A (`cyclic`); not changed, and only its lower triangle is read.
    n, width : int
        Size of the matrix, and of a block.

    Returns
    -------
    ndarray, shape (rows, columns)
        Zero above the diagonal.

    Raises
    ------
    DataError
        If the width is below 1, the part has another shape, or A is not positive definite.
    """
    from labkit import MPI

    if n < 0 or width < 1:
        raise DataError(
            f"n must be at least 0 and width at least 1, got {n} and {width}", code="out-of-range"
        )
    dims = comm.dims if comm.Get_topology() == MPI.CART else MPI.Compute_dims(comm.size, 2)
    rows, columns = cyclic(n, width, tuple(dims), comm.rank)
    if np.shape(a) != (len(rows), len(columns)):
        raise DataError(
            f"a must have the shape {(len(rows), len(columns))}, got {np.shape(a)}", code="count-mismatch"
        )
    grid = comm.Create_cart(dims)
    row, column = grid.Sub([False, True]), grid.Sub([True, False])
    left = np.array(a, np.float64)
    for begin in range(0, n, width):
        _eliminate(row, column, left, rows, columns, begin, min(width, n - begin), width)
    for one in (row, column, grid):
        one.Free()
    left[rows[:, None] < columns] = 0
    return left


def _eliminate(
    row: Any, column: Any, left: Matrix, rows: Indices, columns: Indices, begin: int, size: int, width: int
) -> None:
    """Factorize the panel of columns from begin on, and update what is behind."""
    above, right = begin // width % column.size, begin // width % row.size  # the grid's row and column
    upper, below = np.searchsorted(rows, [begin, begin + width])
    here, behind = np.searchsorted(columns, [begin, begin + width])
    if row.rank == right:
        with phase("panel"):
            corner = np.empty((behind - here, behind - here))
            if column.rank == above:
                left[upper:below, here:behind] = corner[:] = _factor(left[upper:below, here:behind], begin)
        with phase("broadcast"):
            column.Bcast(corner, above)
        with phase("panel"):
            compute(flops=float((len(rows) - below) * len(corner) ** 2))
            left[below:, here:behind] = np.linalg.solve(corner, left[below:, here:behind].T).T
    with phase("broadcast"):
        panel = np.empty((len(rows) - below, size))
        if row.rank == right:
            panel[:] = left[below:, here:behind]
        row.Bcast(panel, right)
        across = _gathered(column, panel, rows[below:], columns[behind:], width)
    with phase("update"):
        lower = (rows[below:, None] >= columns[behind:]).sum()
        compute(flops=2.0 * size * float(lower))
        left[below:, behind:] -= panel @ across.T


def _gathered(column: Any, panel: Matrix, rows: Indices, columns: Indices, width: int) -> Matrix:
    """Return the panel's rows with the numbers of these columns, which this column of the grid has."""
    owners = columns // width % column.size
    counts = np.bincount(owners, minlength=column.size) * panel.shape[1]
    mine = np.ascontiguousarray(panel[np.isin(rows, columns)])
    parts = np.empty((len(columns), panel.shape[1]))
    column.Allgatherv(mine.ravel(), [parts.ravel(), counts])
    across = np.empty_like(parts)
    across[np.argsort(owners, kind="stable")] = parts
    return across


def _factor(block: Matrix, begin: int) -> Matrix:
    """Return the Cholesky factor of a diagonal block."""
    compute(flops=len(block) ** 3 / 3)
    try:
        factor = np.linalg.cholesky(np.tril(block) + np.tril(block, -1).T)
    except np.linalg.LinAlgError as error:
        raise DataError(
            f"the matrix is not positive definite: its part of order {begin + len(block)} is not",
            code="unsupported",
        ) from error
    return np.asarray(factor, dtype=np.float64)


def cost(ranks: int, n_bytes: float, panels: int = 8) -> Cost:
    """Bound messages and bytes of a rank with `n_bytes` of the matrix on a square grid, with trees."""
    depth = ceil_log2(max(round(ranks**0.5), 1))
    return Cost(8 * panels * depth, 4 * n_bytes * depth, is_bound=True)


ALGORITHM = Algorithm(
    "cholesky",
    "solvers",
    function=cholesky,
    cost=cost,
    expectations={"panel": "p^0.5", "broadcast": "p^0.5 log p", "update": "p^0.5", "": "p^0.5 log p"},
)
