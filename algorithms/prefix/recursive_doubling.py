"""Prefix sums by recursive doubling of the whole array: every number is added to the one at distance d.

For d = 1, 2, 4, ... below n, all at the same time: ``x[i] += x[i - d]``. Before the step x[i] is the sum of
the last d numbers up to i, after it of the last 2d. On a PRAM with n processors this is the fastest scan:
log n steps. Distributed in blocks, the step with distance d takes the last d numbers of the rank before, or
whole blocks of ranks that are farther away.

Cost, for n numbers of w bytes on p ranks, m = n / p::

    work        n log n additions, m log n on a rank: a factor of log n more than the serial loop
    span        log n
    messages    1 or 2 in each of the log n steps
    bytes       w m (2 + log p): whole blocks in log p steps

Requires: nothing. Any p, any n; a rank may have an empty block.

Properties
    Operands are combined in order; with floating-point numbers the rounding depends on n, not on p.

Reference
    W. D. Hillis, G. L. Steele: Data parallel algorithms. Communications of the ACM 29 (1986),
    doi:10.1145/7902.7903.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.prefix.recursive_doubling import recursive_doubling
>>> def program(comm):
...     return recursive_doubling(comm, [1, 2], 6).tolist()
>>> lk.run(program, 3, on="star:3").results
[[1, 3], [4, 6], [7, 9]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from labkit.algorithms.prefix._blocks import Numbers, charge_additions, require_block
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2, doublings

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "recursive_doubling"]


def recursive_doubling(comm: Intracomm, values: ArrayLike, n: int) -> Numbers:
    """Return this rank's block of the inclusive prefix sums.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    values : array_like, shape (n_local,)
        This rank's block of n numbers; not changed.
    n : int
        Numbers of all ranks.

    Returns
    -------
    ndarray, shape (n_local,)

    Raises
    ------
    DataError
        If the block has another length, or no numbers.
    """
    mine, edges = require_block(values, n, comm.rank, comm.size)
    first, end = edges[comm.rank], edges[comm.rank + 1]
    for distance in doublings(n):
        with phase("exchange"):
            requests = []
            for other in range(comm.rank + 1, comm.size):
                begin, stop = _common(edges, other, distance, first, end)
                if begin < stop:
                    requests.append(comm.Isend(mine[begin - first : stop - first].copy(), other))
            left = mine[: max(len(mine) - distance, 0)].copy()  # operands that this rank has itself
            for other in reversed(range(comm.rank)):
                begin, stop = _common(edges, comm.rank, distance, edges[other], edges[other + 1])
                if begin < stop:
                    part = np.empty(stop - begin, mine.dtype)
                    comm.Recv(part, other)
                    left = np.concatenate([part, left])
            for request in requests:
                request.Wait()
        with phase("add"):
            charge_additions(len(left))
            mine[len(mine) - len(left) :] += left
    return mine


def _common(edges: Numbers, rank: int, distance: int, first: int, end: int) -> tuple[int, int]:
    """Return which of the numbers from first to end are added to those of a rank at this distance."""
    return max(int(edges[rank]) - distance, first, 0), min(int(edges[rank + 1]) - distance, end)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Bound the cost for blocks of `n_bytes`, in numbers of 8 bytes."""
    steps = ceil_log2(max(round(n_bytes / 8) * ranks, 1))
    blocks = 2 + ceil_log2(ranks) if ranks > 1 else 0
    return Cost(2 * steps if ranks > 1 else 0, blocks * n_bytes, is_bound=True)


ALGORITHM = Algorithm(
    "recursive_doubling",
    "prefix",
    function=recursive_doubling,
    cost=cost,
    expectations={"exchange": "log p", "add": "log p", "": "log p"},
)
