"""Cannon's algorithm: blocks of A move to the left and blocks of B up, on a square grid of ranks.

Rank (i, j) of a q x q grid has block (i, j) of A, B and C. It needs the pairs A(i, l), B(l, j) for all l.
After the skew it holds the pair of l = i + j: row i of A has moved i places to the left, column j of B j
places up. Then q times: multiply the pair, and move A one place to the left and B one place up. No rank
ever holds more than one block of each, and all messages of a step go to neighbors.

Cost, for n x n matrices on p = q^2 ranks, numbers of w bytes::

    agree         2 log q alpha
    skew          2 (alpha + (n^2 / p) w beta)
    shift         2 (q - 1) (alpha + (n^2 / p) w beta): about 2 n^2 / sqrt(p) w beta
    multiply      2 n^3 / p operations

Requires: a square number of ranks. A rank may have an empty block.

Properties
    Memory: one block of A, B and C, and one to receive: 4 n^2 / p numbers, at the lower end of what a
    multiplication needs.
    Words moved: 2 n^2 / sqrt(p) per rank. With memory for 3 n^2 / p numbers, no algorithm moves fewer than a
    constant factor of that (Irony, Toledo, Tiskin 2004).
    Isoefficiency: n^3 = Theta(p^1.5): constant memory per rank.

Reference
    L. E. Cannon: A cellular computer to implement the Kalman filter algorithm. PhD thesis, Montana State
    University (1969). Bounds: D. Irony, S. Toledo, A. Tiskin: Communication lower bounds for
    distributed-memory matrix multiplication. J. Parallel Distrib. Comput. 64 (2004),
    doi:10.1016/j.jpdc.2004.03.021.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.matmul.cannon import cannon
>>> from labkit.datasets import matrices
>>> def program(comm):
...     mine = matrices.block((2, 2), (2, 2), comm.rank)
...     return mine.item(), cannon(comm, mine, mine).item()
>>> lk.run(program, 4, on="star:4").results
[(3.0, 9.0), (1.0, -1.0), (0.0, 0.0), (-4.0, 16.0)]
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from labkit.algorithms.matmul._blocks import (
    Matrix,
    add_product,
    empty_like,
    require_block,
    require_equal,
    sendable,
    square_side,
)
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cannon", "cost"]


def cannon(comm: Intracomm, a: Matrix, b: Matrix) -> Matrix:
    """Multiply two matrices that are distributed in blocks over a square grid of ranks.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one, of q^2 ranks; rank r is at row ``r // q`` and column ``r % q``.
    a, b : ndarray, shapes (m_i, k_j) and (k_i, n_j)
        This rank's blocks of A and B; not changed. The k's of A's columns and B's rows are the same.

    Returns
    -------
    ndarray, shape (m_i, n_j)
        This rank's block of the product.

    Raises
    ------
    DataError
        If the number of ranks is not a square, a block is not a matrix, or the blocks do not fit together.
    """
    a, b = require_block(a, "a"), require_block(b, "b")
    q = square_side(comm.size, "cannon", "summa takes any number")
    grid = comm.Create_cart([q, q], periods=[True, True])
    row, column = grid.Sub([False, True]), grid.Sub([True, False])
    i, j = grid.coords
    with phase("agree"):
        rows, widths = zip(*row.allgather(a.shape), strict=True)
        heights, columns = zip(*column.allgather(b.shape), strict=True)
        require_equal(rows, f"the numbers of rows of A's blocks in row {i} of the grid")
        require_equal(columns, f"the numbers of columns of B's blocks in column {j} of the grid")
        require_equal([widths, heights], "the widths of A's blocks and the heights of B's")
    c = empty_like(a, a.shape[0], b.shape[1], b)

    def moved(a: Matrix, b: Matrix, left: int, up: int, k: int) -> tuple[Matrix, Matrix]:
        """Pass A's block to the left and B's up; return those that come, which have k columns and rows."""
        a_next, b_next = empty_like(a, a.shape[0], k), empty_like(b, k, b.shape[1])
        row.Sendrecv(a, (j - left) % q, recvbuf=a_next, source=(j + left) % q)
        column.Sendrecv(b, (i - up) % q, recvbuf=b_next, source=(i + up) % q)
        return a_next, b_next

    a, b = sendable(a), sendable(b)
    with phase("skew"):
        a, b = moved(a, b, left=i, up=j, k=widths[(i + j) % q])
    for step in range(q):
        with phase("multiply"):
            add_product(c, a, b)
        if step < q - 1:
            with phase("shift"):
                a, b = moved(a, b, left=1, up=1, k=widths[(i + j + step + 1) % q])
    for one in (row, column, grid):
        one.Free()
    return c


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict messages and bytes of a rank with `n_bytes` of A and of B: skew, shifts, agreement on sizes."""
    q = math.isqrt(ranks)
    return Cost(2 * q + 2 * ceil_log2(q), 2 * q * n_bytes) if q > 1 else Cost(0)


ALGORITHM = Algorithm(
    "cannon",
    "matmul",
    function=cannon,
    requirements=Requirements(square=True),
    cost=cost,
    expectations={"skew": "1", "shift": "p^0.5", "multiply": "p^0.5", "": "p^0.5"},
)
