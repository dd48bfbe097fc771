"""Three-dimensional FFT of pencils: three axes one after another, two transpositions in rows and columns.

The ranks are a grid. Each has a pencil: parts of the axes 0 and 1, all of axis 2. It transforms axis 2; an
exchange in its row of the grid makes axis 1 whole and cuts axis 2; it transforms axis 1; an exchange in its
column makes axis 0 whole and cuts axis 1; it transforms axis 0.

Cost, for n^3 numbers of w bytes on p = q^2 ranks::

    transform     5 n^3 log(n^3) / p operations
    transpose     2 (q - 1) (alpha + n^3 / (p q) w beta)

Requires: nothing, but ranks beyond n^2 have no pencil and nothing to do.

Properties
    Words sent: 2 n^3 / p (1 - 1/q) per rank: nearly twice those of slabs, in 2 (sqrt(p) - 1) messages
    instead of p - 1.

Reference
    D. Pekurovsky: P3DFFT: a framework for parallel computations of Fourier transforms in three dimensions.
    SIAM J. Sci. Comput. 34 (2012), doi:10.1137/11082748X.

Examples
--------
>>> import numpy as np
>>> import labkit as lk
>>> from labkit.algorithms.fft.pencil import pencil
>>> def program(comm):
...     return pencil(comm, np.ones((1, 1, 2)), (2, 2, 2)).real.ravel().tolist()
>>> lk.run(program, 4, on="star:4").results
[[8.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from labkit.algorithms.fft._transpose import Block, require_part, transform, transpose
from labkit.datasets.matrices import offsets
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "pencil"]


def pencil(comm: Intracomm, block: Block, shape: tuple[int, int, int]) -> Block:
    """Return this rank's part of the transform of a three-dimensional array.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one. The grid is the one of ``MPI.Compute_dims(p, 2)``, rank r in row
        ``r // columns`` and column ``r % columns``.
    block : ndarray, shape (a, b, n2)
        Part `row` of axis 0 and part `column` of axis 1; not changed. Part i of k begins at ``i n // k``.
    shape : tuple of int
        The shape (n0, n1, n2) of the whole array.

    Returns
    -------
    ndarray of complex128, shape (n0, c, d)
        Part `row` of axis 1 and part `column` of axis 2.

    Raises
    ------
    DataError
        If the block has another shape.
    """
    from labkit import MPI

    rows, columns = MPI.Compute_dims(comm.size, 2)
    i, j = divmod(comm.rank, columns)
    mine = np.diff(offsets(shape[0], rows))[i], np.diff(offsets(shape[1], columns))[j]
    block = require_part(block, (*map(int, mine), shape[2]), "pencil")
    row, column = comm.Split(i, j), comm.Split(j, i)
    with phase("transform"):
        block = transform(block, 2)
    block = transpose(row, block, whole=2, cut=1, length=shape[1])
    with phase("transform"):
        block = transform(block, 1)
    block = transpose(column, block, whole=1, cut=0, length=shape[0])
    with phase("transform"):
        block = transform(block, 0)
    row.Free()
    column.Free()
    return block


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict messages and bytes of a rank that has `n_bytes`, on a square grid."""
    q = math.sqrt(ranks)
    return Cost(2 * (q - 1), 2 * n_bytes * (1 - 1 / q))


ALGORITHM = Algorithm("pencil", "fft", function=pencil, cost=cost)
