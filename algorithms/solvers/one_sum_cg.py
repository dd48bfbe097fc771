"""Conjugate gradients with one sum over all ranks in each step.

Chronopoulos and Gear compute the second dot product of a step from quantities that are there before it, by a
recurrence. Both then are summed in one message of two numbers.

Cost of a step, for m numbers on a rank, p ranks::

    apply       one product with A
    vectors     4 axpys, 2 dot products: 12 m operations
    sums        1 allreduce of 16 bytes: log p alpha

Requires: nothing. Any p, any length of b on a rank. A must be symmetric and positive definite.

Properties
    The same vectors as conjugate gradients have, up to rounding; one vector more in memory.

Reference
    A. T. Chronopoulos, C. W. Gear: s-step iterative methods for symmetric linear systems. J. Computational
    and Applied Mathematics 25 (1989), doi:10.1016/0377-0427(89)90045-9.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.solvers.one_sum_cg import one_sum_cg
>>> def program(comm):
...     return one_sum_cg(comm, lambda v: 4 * v, np.ones(2)).x.tolist()
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

__all__ = ["ALGORITHM", "cost", "one_sum_cg"]


def one_sum_cg(
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
    x, p, s = np.zeros_like(r), np.zeros_like(r), np.zeros_like(r)
    residuals: list[float] = []
    last = alpha = 1.0
    total = np.empty(2)
    while True:
        with phase("apply"):
            w = apply(r)
        with phase("vectors"):
            mine = dots((r, r), (w, r))
        with phase("sums"):
            comm.Allreduce(mine, total)
        gamma, delta = total.tolist()
        beta = gamma / last if residuals else 0.0
        residuals.append(gamma**0.5)
        if residuals[-1] <= tolerance * residuals[0] or len(residuals) > most_steps:
            return Solved(x, len(residuals) - 1, residuals)
        alpha = gamma / (delta - beta * gamma / alpha)
        last = gamma
        with phase("vectors"):
            p = axpy(beta, p, r)
            s = axpy(beta, s, w)
            x = axpy(alpha, p, x)
            r = axpy(-alpha, s, r)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the messages and bytes of a step's sums with recursive doubling; `apply` adds its own."""
    return Cost(ceil_log2(ranks), 16 * ceil_log2(ranks))


ALGORITHM = Algorithm(
    "one_sum_cg",
    "solvers",
    function=one_sum_cg,
    cost=cost,
    expectations={"apply": "1", "vectors": "1", "sums": "log p", "": "log p"},
)
