"""Prefix sums of blocks: sum the block, scan the p sums, scan the block from there.

Each rank adds up its block, one exclusive scan of these sums tells it the sum of all blocks before, and with
that as the first operand it runs the serial loop. This is Brent's principle with the tree cut off where it
has p leaves: below, each rank works serially; above, p ranks need log p steps.

Cost, for n numbers of w bytes on p ranks, m = n / p::

    work        2 m additions on a rank, and log p in the scan
    messages    log p of w bytes, with any m

Requires: nothing. Any p, any n; a rank may have an empty block.

Properties
    The fewest messages; n is used to check the blocks only. With floating-point numbers the rounding depends
    on p.

Reference
    R. P. Brent: The parallel evaluation of general arithmetic expressions. Journal of the ACM 21 (1974),
    doi:10.1145/321812.321815. G. E. Blelloch: Scans as primitive parallel operations. IEEE Trans. Computers
    38 (1989), doi:10.1109/12.42122.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.prefix.block_sums import block_sums
>>> def program(comm):
...     return block_sums(comm, [1, 2], 6).tolist()
>>> lk.run(program, 3, on="star:3").results
[[1, 3], [4, 6], [7, 9]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from labkit.algorithms.prefix._blocks import Numbers, charge_additions, require_block, running_sums
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "block_sums", "cost"]


def block_sums(comm: Intracomm, values: ArrayLike, n: int) -> Numbers:
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
    mine, _ = require_block(values, n, comm.rank, comm.size)
    with phase("sum"):
        charge_additions(max(len(mine) - 1, 0))
        total = mine.sum(keepdims=True, dtype=mine.dtype)
    before = np.zeros(1, mine.dtype)
    with phase("scan sums"):
        comm.Exscan(total, before)
    if comm.rank == 0:
        before[:] = 0  # MPI leaves it undefined
    with phase("scan block"):
        mine[:1] += before
        return running_sums(mine)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the messages and bytes of a rank by recursive doubling, in numbers of 8 bytes."""
    return Cost(ceil_log2(ranks), 8 * ceil_log2(ranks))


ALGORITHM = Algorithm(
    "block_sums",
    "prefix",
    function=block_sums,
    cost=cost,
    expectations={"sum": "1", "scan sums": "log p", "scan block": "1", "": "log p"},
)
