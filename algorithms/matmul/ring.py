"""Blocks of rows: the rows of B travel around a ring.

Rank r has the rows of A, B and C number r. It needs all of B for its rows of C. In step s it has the rows
of B that began at rank r + s: it multiplies the matching columns of its A by them, adds the product to C,
and passes the rows on to rank r - 1.

Cost, for n x n matrices on p ranks, numbers of w bytes::

    agree         log p alpha
    shift         (p - 1) (alpha + (n^2 / p) w beta): about n^2 w beta, whatever p is
    multiply      2 n^3 / p operations

Requires: nothing. Any p; a rank may have no rows.

Properties
    Memory: the rank's rows of A, B and C, and B twice: 5 n^2 / p numbers.
    Words moved: n^2 (1 - 1/p) per rank. A grid moves 2 n^2 / sqrt(p): fewer from 5 ranks on.
    Isoefficiency: n^3 = Theta(p^3), since n^2 words are compared with 2 n^3 / p operations.

Reference
    V. Kumar, A. Grama, A. Gupta, G. Karypis: Introduction to Parallel Computing, chapter 8 (matrix-vector and
    matrix-matrix multiplication by rows). Lower bounds: D. Irony, S. Toledo, A. Tiskin: Communication lower
    bounds for distributed-memory matrix multiplication. J. Parallel Distrib. Comput. 64 (2004),
    doi:10.1016/j.jpdc.2004.03.021.

Examples
--------
>>> import numpy as np
>>> import labkit as lk
>>> from labkit.algorithms.matmul.ring import ring
>>> def program(comm):
...     rows = np.full((1, comm.size), comm.rank + 1)
...     return ring(comm, rows, rows).tolist()
>>> lk.run(program, 2, on="star:2").results
[[[3, 3]], [[6, 6]]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labkit.algorithms.matmul._blocks import (
    Matrix,
    add_product,
    empty_like,
    require_block,
    require_equal,
    sendable,
)
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "ring"]


def ring(comm: Intracomm, a: Matrix, b: Matrix) -> Matrix:
    """Multiply two matrices that are distributed by rows.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    a, b : ndarray, shapes (m_r, k) and (k_r, n)
        This rank's rows of A and B; not changed.

    Returns
    -------
    ndarray, shape (m_r, n)
        This rank's rows of the product.

    Raises
    ------
    DataError
        If a block is not a matrix, or the blocks do not fit together.
    """
    a, b = require_block(a, "a"), require_block(b, "b")
    with phase("agree"):
        rows, widths = zip(*comm.allgather(b.shape), strict=True)
        require_equal(widths, "the numbers of columns of B on the ranks")
        require_equal([a.shape[1], sum(rows)], "the columns of A and the rows of B, over all ranks,")
        first = np.concatenate([[0], np.cumsum(rows)])
    c = empty_like(a, a.shape[0], b.shape[1], b)
    held, before, after = sendable(b), (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    for step in range(comm.size):
        origin = (comm.rank + step) % comm.size
        with phase("multiply"):
            add_product(c, a[:, first[origin] : first[origin + 1]], held)
        if step < comm.size - 1:
            with phase("shift"):
                coming = empty_like(held, rows[(origin + 1) % comm.size], b.shape[1])
                comm.Sendrecv(held, before, recvbuf=coming, source=after)
                held = coming
    return c


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict messages and bytes of a rank with `n_bytes` of B: the shifts and the agreement on sizes."""
    return Cost(ranks - 1 + ceil_log2(ranks), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "ring",
    "matmul",
    function=ring,
    cost=cost,
    expectations={"shift": "p", "multiply": "p^0.5", "": "p"},
)
