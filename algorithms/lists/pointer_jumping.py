"""List ranking by pointer jumping: every element asks its successor for the successor's successor.

An element knows the number of links to the element it points to. In each round it adds what that element
knows, and points to where that one points: the distance doubles. After ceil(log2 n) rounds all point to the
end of their list.

Cost, for n elements on p ranks::

    rounds      log n, each two exchanges of all ranks with all others: requests, answers
    messages    at most 4 (p - 1) in a round, of which half have only a number of bytes
    bytes       40 n / p in a round: n log n in all
    work        n log n looks at memory; the serial loop has n

Requires: nothing. Any p, any n; a rank may have no element.

Properties
    An element is asked for once by each rank, and one whose successor has arrived has arrived, and asks no
    more: otherwise the owner of the last element would answer n / 2 requests in the last round.

Reference
    J. C. Wyllie: The complexity of parallel computations. PhD thesis, Cornell University 1979,
    hdl:1813/7502. J. JaJa: An introduction to parallel algorithms. Addison-Wesley 1992, chapter 3.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.lists.pointer_jumping import pointer_jumping
>>> def program(comm):
...     return pointer_jumping(comm, 4, [[2, 0], [3, 3]][comm.rank]).tolist()
>>> lk.run(program, 2, on="star:2").results
[[2, 3], [1, 0]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit.algorithms.graphs._distributed import Rows
from labkit.algorithms.lists._elements import fetch_rows, require_list
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "pointer_jumping"]


def pointer_jumping(comm: Intracomm, n: int, successors: ArrayLike) -> Rows:
    """Return the number of links from each of this rank's elements to the end of its list.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    n : int
        Elements of all ranks.
    successors : array_like of int, shape (n_local,)
        Of this rank's elements; the last element of a list is its own successor.

    Returns
    -------
    ndarray of int64, shape (n_local,)

    Raises
    ------
    DataError
        If there are more or fewer successors, or one is no element.
    """
    target, first, end = require_list(n, successors, comm.rank, comm.size)
    links: NDArray[np.int64] = (target != np.arange(first, end)).astype(np.int64)
    for _ in range(ceil_log2(max(n, 1))):
        with phase("exchange"):
            moving = np.flatnonzero(links)  # the last element of a list has no link
            moving = moving[target[moving] >= 0]
            answers, _ = fetch_rows(comm, np.column_stack([target, links]), target[moving], n)
        with phase("jump"):
            is_last = answers[:, 1] == 0
            links[moving] += answers[:, 1]
            target[moving] = np.where(is_last, -1, answers[:, 0])
    return links


def cost(ranks: int, n_bytes: float, rounds: int = 1) -> Cost:
    """Bound the messages and bytes of a rank that has `n_bytes` of successors, for a number of rounds."""
    return Cost(4 * rounds * (ranks - 1), rounds * (5 * n_bytes + 16 * (ranks - 1)), is_bound=True)


ALGORITHM = Algorithm(
    "pointer_jumping",
    "lists",
    function=pointer_jumping,
    cost=cost,
    expectations={"exchange": "p log p", "": "p log p"},
)
