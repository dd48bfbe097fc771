"""Three-dimensional FFT of slabs: two axes are transformed locally, one transposition, then the third.

Each rank has a slab of planes: part of axis 0, all of the axes 1 and 2. It transforms those two. In one
exchange of all ranks axis 0 becomes whole and axis 1 is cut instead; then axis 0 is transformed.

Cost, for n^3 numbers of w bytes on p ranks::

    transform     5 n^3 log(n^3) / p operations
    transpose     (p - 1) (alpha + n^3 / p^2 w beta)

Requires: nothing, but ranks beyond n have no plane and nothing to do.

Properties
    Words sent: n^3 / p (1 - 1/p) per rank, once: each number moves at most once.
    Messages become small as 1/p^2. From p^2 = n^3 w beta / alpha on, start-ups take longer than bytes.

Reference
    M. Frigo, S. G. Johnson: The design and implementation of FFTW3. Proc. IEEE 93 (2005),
    doi:10.1109/JPROC.2004.840301. Slabs and pencils compared: D. Pekurovsky: P3DFFT: a framework for parallel
    computations of Fourier transforms in three dimensions. SIAM J. Sci. Comput. 34 (2012),
    doi:10.1137/11082748X.

Examples
--------
>>> import numpy as np
>>> import labkit as lk
>>> from labkit.algorithms.fft.slab import slab
>>> def program(comm):
...     return slab(comm, np.ones((1, 2, 2)), (2, 2, 2)).real.tolist()
>>> lk.run(program, 2, on="star:2").results
[[[[8.0, 0.0]], [[0.0, 0.0]]], [[[0.0, 0.0]], [[0.0, 0.0]]]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labkit.algorithms.fft._transpose import Block, require_part, transform, transpose
from labkit.datasets.matrices import offsets
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "slab"]


def slab(comm: Intracomm, block: Block, shape: tuple[int, int, int]) -> Block:
    """Return this rank's part of the transform of a three-dimensional array.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    block : ndarray, shape (a, n1, n2)
        Planes ``rank n0 // p`` to ``(rank + 1) n0 // p``; not changed.
    shape : tuple of int
        The shape (n0, n1, n2) of the whole array.

    Returns
    -------
    ndarray of complex128, shape (n0, b, n2)
        Columns ``rank n1 // p`` to ``(rank + 1) n1 // p`` of axis 1.

    Raises
    ------
    DataError
        If the block has another shape.
    """
    planes = int(np.diff(offsets(shape[0], comm.size))[comm.rank])
    block = require_part(block, (planes, *shape[1:]), "slab")
    with phase("transform"):
        block = transform(block, 1, 2)
    block = transpose(comm, block, whole=1, cut=0, length=shape[0])
    with phase("transform"):
        return transform(block, 0)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict messages and bytes of a rank that has `n_bytes`."""
    return Cost(ranks - 1, n_bytes * (1 - 1 / ranks))


ALGORITHM = Algorithm("slab", "fft", function=slab, cost=cost)
