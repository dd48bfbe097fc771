"""Conjugate gradients: two sums over all ranks in each step, one after the other.

Of all vectors that b, A b, A^2 b, ... span, a step finds the one whose error is smallest in the norm of A. It
needs one product with A and two dot products. Each is a sum over all ranks, and the next line needs it.

Cost of a step, for m numbers on a rank, p ranks::

    apply       one product with A
    vectors     3 axpys, 2 dot products: 10 m operations
    sums        2 allreduces of 8 bytes: 2 log p alpha

Requires: nothing. Any p, any length of b on a rank. A must be symmetric and positive definite.

Properties
    Reaches the smallest residual of the three variants before rounding errors stop it.

Reference
    M. R. Hestenes, E. Stiefel: Methods of conjugate gradients for solving linear systems. J. Research of the
    National Bureau of Standards 49 (1952), doi:10.6028/jres.049.044.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.solvers.cg import cg
>>> def program(comm):
...     return cg(comm, lambda v: 4 * v, np.ones(2)).x.tolist()
>>> lk.run(program, 2, on="star:2").results
[[0.25, 0.25], [0.25, 0.25]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from labkit.algorithms.solvers._steps import Apply, Solved, Vector, axpy, dots, require_system
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cg", "cost"]


def cg(
    comm: Intracomm, apply: Apply, b: ArrayLike, *, tolerance: float = 1e-8, most_steps: int = 1000
) -> Solved:
    """Solve A x = b, beginning at x = 0.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    apply : callable
        ``apply(v)`` returns this rank's part of A v; all ranks call it together.
    b : array_like, shape (m,)
        This rank's part of the right-hand side.
    tolerance : float
        Stop when the residual's norm is at most this part of the norm of b.
    most_steps : int
        Stop after this number of steps in any case.

    Returns
    -------
    Solved

    Raises
    ------
    DataError
        If b is not finite or has more than one dimension, or a limit is not positive.
    """
    r = require_system(b, tolerance, most_steps).copy()
    x, p = np.zeros_like(r), r.copy()
    rho = _sum(comm, r, r)
    residuals = [rho**0.5]
    while residuals[-1] > tolerance * residuals[0] and len(residuals) <= most_steps:
        with phase("apply"):
            s = apply(p)
        alpha = rho / _sum(comm, p, s)
        with phase("vectors"):
            x = axpy(alpha, p, x)
            r = axpy(-alpha, s, r)
        last, rho = rho, _sum(comm, r, r)
        with phase("vectors"):
            p = axpy(rho / last, p, r)
        residuals.append(rho**0.5)
    return Solved(x, len(residuals) - 1, residuals)


def _sum(comm: Intracomm, left: Vector, right: Vector) -> float:
    """Return a dot product over all ranks."""
    with phase("vectors"):
        mine = dots((left, right))
    total = np.empty_like(mine)
    with phase("sums"):
        comm.Allreduce(mine, total)
    return float(total[0])


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the messages and bytes of a step's sums with recursive doubling; `apply` adds its own."""
    return Cost(2 * ceil_log2(ranks), 16 * ceil_log2(ranks))


ALGORITHM = Algorithm(
    "cg",
    "solvers",
    function=cg,
    cost=cost,
    expectations={"apply": "1", "vectors": "1", "sums": "log p", "": "log p"},
)
