"""SUMMA: broadcast panels of columns of A along the rows of a grid, and of rows of B along its columns.

C is the sum of products of a column of A and a row of B. So for one panel of columns of A after another: the
ranks that have it broadcast their parts along their rows of the grid; those that have the same rows of B
broadcast them along their columns; each rank multiplies what it received and adds it to its block of C.
Nothing is skewed, the grid need not be square, and the panel's width is a choice: narrow panels need little
memory and many messages.

Cost, for n x n matrices on a q x q grid, p = q^2, panels of width s, numbers of w bytes::

    agree         2 log q alpha
    broadcast     2 (n / s) broadcasts of (n / q) s numbers to q ranks: with a tree
                  2 (n / s) log q (alpha + (n / q) s w beta) = 2 log q (n / s alpha + n^2 / sqrt(p) w beta);
                  with a scatter and an allgather, factor 2 in place of log q on the bytes
    multiply      2 n^3 / p operations

Requires: nothing. Any p, any sizes of blocks that fit together; a rank may have an empty block.

Properties
    Memory: a block of A, B and C and one panel of each: (3 n^2 + 2 n s q) / p numbers.
    Words received: 2 n^2 / sqrt(p) (1 - 1/q) per rank, at the lower bound up to a constant for this memory.

Reference
    R. A. van de Geijn, J. Watts: SUMMA: scalable universal matrix multiplication algorithm. Concurrency:
    Practice and Experience 9 (1997), doi:10.1002/(SICI)1096-9128(199704)9:4<255::AID-CPE250>3.0.CO;2-2.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.matmul.summa import summa
>>> from labkit.datasets import matrices
>>> def program(comm):
...     mine = matrices.block((2, 2), (2, 2), comm.rank)
...     return mine.item(), summa(comm, mine, mine).item()
>>> lk.run(program, 4, on="star:4").results
[(3.0, 9.0), (1.0, -1.0), (0.0, 0.0), (-4.0, 16.0)]
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.matmul._blocks import (
    Matrix,
    add_product,
    empty_like,
    require_block,
    require_equal,
    sendable,
)
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

__all__ = ["ALGORITHM", "cost", "panels", "sum_of_panels", "summa"]


def summa(comm: Any, a: Matrix, b: Matrix, *, width: int | None = None) -> Matrix:
    """Multiply two matrices that are distributed in blocks over a grid of ranks.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one. The grid is the one of ``MPI.Compute_dims(comm.size, 2)``, rank r at row
        ``r // columns``; a Cartesian communicator of two dimensions brings its own.
    a, b : ndarray, shapes (m_i, k_j) and (k_i, n_j)
        This rank's blocks of A and B; not changed.
    width : int, optional
        Most columns of A in a panel; default: as many as one rank has, and one rank has the rows of B of.

    Returns
    -------
    ndarray, shape (m_i, n_j)
        This rank's block of the product.

    Raises
    ------
    DataError
        If a block is not a matrix, the blocks do not fit together, or the width is below 1.
    """
    from labkit import MPI

    a, b = require_block(a, "a"), require_block(b, "b")
    if width is not None and width < 1:
        raise DataError(f"width must be at least 1, got {width}", code="out-of-range")
    dims = comm.dims if comm.Get_topology() == MPI.CART else MPI.Compute_dims(comm.size, 2)
    grid = comm.Create_cart(dims)
    row, column = grid.Sub([False, True]), grid.Sub([True, False])
    with phase("agree"):
        rows, widths = zip(*row.allgather(a.shape), strict=True)
        heights, columns = zip(*column.allgather(b.shape), strict=True)
        require_equal(rows, f"the numbers of rows of A's blocks in row {grid.coords[0]} of the grid")
        require_equal(columns, f"the numbers of columns of B's blocks in column {grid.coords[1]} of the grid")
        require_equal([sum(widths), sum(heights)], "the columns of A and the rows of B")
    c = empty_like(a, a.shape[0], b.shape[1], b)
    edges_a, edges_b = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in (widths, heights))
    sum_of_panels(row, column, a, b, c, edges_a, edges_b, panels(edges_a, edges_b, width))
    for one in (row, column, grid):
        one.Free()
    return c


def panels(
    edges_a: NDArray[np.int64], edges_b: NDArray[np.int64], width: int | None
) -> list[tuple[int, int]]:
    """Return the panels, as ranges of A's columns: each lies in one block of A and one of B."""
    k = int(edges_a[-1])
    steps = np.arange(0, k, width or max(k, 1))
    edges = np.unique(np.concatenate([edges_a, edges_b, steps])).astype(int).tolist()
    return list(pairwise(edges))


def sum_of_panels(
    row: Any,
    column: Any,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    edges_a: NDArray[np.int64],
    edges_b: NDArray[np.int64],
    ranges: list[tuple[int, int]],
) -> None:
    """Add to c the products of the panels in these ranges of A's columns."""
    for begin, end in ranges:
        left = int(np.searchsorted(edges_a, begin, "right")) - 1  # the column of the grid that has them
        upper = int(np.searchsorted(edges_b, begin, "right")) - 1
        with phase("broadcast"):
            if row.rank == left:
                part_a = sendable(a[:, begin - edges_a[left] : end - edges_a[left]])
            else:
                part_a = empty_like(a, a.shape[0], end - begin)
            if column.rank == upper:
                part_b = sendable(b[begin - edges_b[upper] : end - edges_b[upper]])
            else:
                part_b = empty_like(b, end - begin, b.shape[1])
            row.Bcast(part_a, root=left)
            column.Bcast(part_b, root=upper)
        with phase("multiply"):
            add_product(c, part_a, part_b)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict messages and bytes of a rank with `n_bytes` of A and of B on a square grid, with trees."""
    q = math.sqrt(ranks)
    depth = ceil_log2(math.ceil(q))
    return Cost(2 * q * depth + 2 * depth, 2 * q * depth * n_bytes, is_bound=True)


ALGORITHM = Algorithm(
    "summa",
    "matmul",
    function=summa,
    cost=cost,
    expectations={"broadcast": "p^0.5 log p", "multiply": "p^0.5", "": "p^0.5 log p"},
)
