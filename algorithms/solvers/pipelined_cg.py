"""Pipelined conjugate gradients: the sum over all ranks is hidden behind the product with A.

Ghysels and Vanroose compute A r by a recurrence too. The product with A of a step then does not need the sums
of this step: it runs while they are on their way, by a nonblocking allreduce.

Cost of a step, for m numbers on a rank, p ranks::

    apply       one product with A, while the sums are on their way
    vectors     6 axpys, 2 dot products: 16 m operations
    sums        what is left of log p alpha after the product: nothing, while it takes longer

Requires: nothing. Any p, any length of b on a rank. A must be symmetric and positive definite.

Properties
    Two vectors more in memory than with one sum, and more rounding errors: the residual of the recurrence
    goes on falling when that of x does not. The last product is not used.

Reference
    P. Ghysels, W. Vanroose: Hiding global synchronization latency in the preconditioned Conjugate Gradient
    algorithm. Parallel Computing 40 (2014), doi:10.1016/j.parco.2013.06.001.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.solvers.pipelined_cg import pipelined_cg
>>> def program(comm):
...     return pipelined_cg(comm, lambda v: 4 * v, np.ones(2)).x.tolist()
>>> lk.run(program, 2, on="star:2").results
[[0.25, 0.25], [0.25, 0.25]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from labkit.algorithms.solvers._steps import Apply, Solved, axpy, dots, require_system
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "pipelined_cg"]


def pipelined_cg(
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
    x, p, s, z = (np.zeros_like(r) for _ in range(4))
    residuals: list[float] = []
    last = alpha = 1.0
    total = np.empty(2)
    with phase("apply"):
        w = apply(r)
    while True:
        with phase("vectors"):
            mine = dots((r, r), (w, r))
        with phase("sums"):
            request = comm.Iallreduce(mine, total)
        with phase("apply"):
            n = apply(w)
        with phase("sums"):
            request.Wait()
        gamma, delta = total.tolist()
        beta = gamma / last if residuals else 0.0
        residuals.append(gamma**0.5)
        if residuals[-1] <= tolerance * residuals[0] or len(residuals) > most_steps:
            return Solved(x, len(residuals) - 1, residuals)
        alpha = gamma / (delta - beta * gamma / alpha)
        last = gamma
        with phase("vectors"):
            z = axpy(beta, z, n)
            s = axpy(beta, s, w)
            p = axpy(beta, p, r)
            x = axpy(alpha, p, x)
            r = axpy(-alpha, s, r)
            w = axpy(-alpha, z, w)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the messages and bytes of a step's sums with recursive doubling; `apply` adds its own."""
    return Cost(ceil_log2(ranks), 16 * ceil_log2(ranks))


ALGORITHM = Algorithm(
    "pipelined_cg",
    "solvers",
    function=pipelined_cg,
    cost=cost,
    expectations={"apply": "1", "vectors": "1", "sums": "log p", "": "log p"},
)
