"""All pairs on a ring: the bodies of every rank travel around once, and pull whatever they meet.

While a rank computes what one block of bodies does to its own, the next block arrives.

Cost, for m bodies on a rank, p ranks, n = p m::

    shift       p - 1 messages of 24 m bytes, while the rank computes; before them an allgather of lengths
    force       m n interactions

Requires: nothing. Any p, any m; a rank may have no body.

Properties
    Exact but for rounding. Balanced by the number of bodies alone, wherever they are. Two blocks of memory.

Reference
    G. C. Fox, M. A. Johnson, G. A. Lyzenga, S. W. Otto, J. K. Salmon, D. W. Walker: Solving problems on
    concurrent processors. Prentice Hall 1988, chapter 9. M. Driscoll, E. Georganas, P. Koanantakool,
    E. Solomonik, K. Yelick: A communication-optimal N-body algorithm for direct interactions. IPDPS 2013,
    doi:10.1109/IPDPS.2013.108.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.nbody.ring import ring
>>> def program(comm):
...     return ring(comm, [[2.0 * comm.rank, 0.0]], [4.0]).acceleration.tolist()
>>> lk.run(program, 2, on="star:2").results
[[[1.0, 0.0]], [[-1.0, 0.0]]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from labkit import MPI
from labkit.algorithms.nbody._gravity import Pull, attract_all, require_bodies
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "ring"]


def ring(comm: Intracomm, positions: ArrayLike, masses: ArrayLike, *, softening: float = 0.0) -> Pull:
    """Return the acceleration of this rank's bodies by all bodies.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    positions : array_like, shape (m, 2)
        Of this rank's bodies.
    masses : array_like, shape (m,)
    softening : float
        A length: pairs that are much nearer pull each other less.

    Returns
    -------
    Pull

    Raises
    ------
    DataError
        If shapes do not fit, or a number is not finite or negative.
    """
    mine, weights = require_bodies(positions, masses, softening)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    block = np.column_stack([mine, weights])
    with phase("shift"):
        counts = comm.allgather(len(block))
    acceleration = np.zeros_like(mine)
    for step in range(comm.size):
        going = []
        coming = block
        if step < comm.size - 1:
            with phase("shift"):
                coming = np.empty((counts[comm.rank - step - 1], 3))
                going = [comm.Irecv(coming, left), comm.Isend(block, right)]
        with phase("force"):
            acceleration += attract_all(mine, block[:, :2], block[:, 2], softening)
        with phase("shift"):
            MPI.Request.Waitall(going)
        block = coming
    return Pull(acceleration, np.full(len(mine), sum(counts), np.int64))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Bound the messages and bytes of a rank with `n_bytes` of positions and masses, and of their numbers."""
    return Cost(ranks - 1 + 2 * ceil_log2(ranks), (ranks - 1) * (n_bytes + 32), is_bound=True)


ALGORITHM = Algorithm(
    "ring",
    "nbody",
    function=ring,
    cost=cost,
    expectations={"shift": "p", "force": "p", "": "p"},
)
