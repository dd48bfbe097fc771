"""Prefix sums up and down a binary tree over the numbers: twice the steps, and few additions.

A node of the tree is a range of 2d places, stored at its last one. Up: for d = 1, 2, 4, ... a node adds the
sum of its left half to that of its right half. Then the root becomes 0. Down: for d = ..., 4, 2, 1 a node
has the sum of all numbers before it; its left half gets this sum, and its right half the same plus the sum of
the left half. These are exclusive prefix sums; adding the numbers makes them inclusive.

Cost, for n numbers of w bytes on p ranks, m = n / p::

    work        3 n additions, 3 m on a rank
    span        2 log n
    messages    2 log p of w bytes if p and m are powers of two; else up to 2 log n

Requires: nothing. Any p, any n; a rank may have an empty block. Beyond n the tree has no places.

Properties
    In each step at most one node has halves on both sides of a border between blocks: below a subtree that
    one rank has, nothing is sent. With floating-point numbers the rounding depends on n, not on p.

Reference
    G. E. Blelloch: Scans as primitive parallel operations. IEEE Trans. Computers 38 (1989),
    doi:10.1109/12.42122.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.prefix.blelloch import blelloch
>>> def program(comm):
...     return blelloch(comm, [1, 2], 6).tolist()
>>> lk.run(program, 3, on="star:3").results
[[1, 3], [4, 6], [7, 9]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit.algorithms.prefix._blocks import Numbers, charge_additions, require_block
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2, doublings

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "blelloch", "cost"]


def blelloch(comm: Intracomm, values: ArrayLike, n: int) -> Numbers:
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
    given, edges = require_block(values, n, comm.rank, comm.size)
    mine = given.copy()
    with phase("up"):
        for half in doublings(n):
            _step(comm, mine, edges, half, is_down=False)
    if n and edges[comm.rank] < n == edges[comm.rank + 1]:
        mine[-1] = 0  # the root
    with phase("down"):
        for half in reversed(doublings(n)):
            _step(comm, mine, edges, half, is_down=True)
    charge_additions(len(mine))
    return mine + given


def _step(comm: Intracomm, mine: Numbers, edges: NDArray[np.int64], half: int, *, is_down: bool) -> None:
    """Combine the halves of all nodes of one level that this rank has a part of."""
    first, end, n = (int(edges[k]) for k in (comm.rank, comm.rank + 1, -1))
    nodes = np.arange(first // (2 * half), -(-end // (2 * half)))
    left = 2 * half * nodes + half - 1
    right = np.minimum(left + half, n - 1)
    left, right = left[right > left], right[right > left]  # nodes with both halves
    has_left, has_right = ((first <= places) & (places < end) for places in (left, right))
    here = has_left & has_right
    a, b = left[here] - first, right[here] - first
    before = mine[a]
    if is_down:
        mine[a] = mine[b]
    mine[b] += before
    requests, incoming = [], []
    for own, other, is_right in ((left, right, False), (right, left, True)):
        is_split = (has_left ^ has_right) & (first <= own) & (own < end)  # at most one
        for at, partner in zip(own[is_split], other[is_split], strict=True):
            place = mine[at - first : at - first + 1]
            owner = int(np.searchsorted(edges, partner, "right")) - 1
            if is_down or not is_right:
                requests.append(comm.Isend(place.copy(), owner))
            if is_down or is_right:
                incoming.append((place, owner, is_right))
    for place, owner, is_right in incoming:
        operand = np.empty_like(place)
        comm.Recv(operand, owner)
        place[:] = place + operand if is_right else operand
    charge_additions(len(b) + sum(is_right for _, _, is_right in incoming))
    for request in requests:
        request.Wait()


def cost(ranks: int, n_bytes: float) -> Cost:
    """Bound the cost for blocks of `n_bytes`, in numbers of 8 bytes."""
    steps = 2 * ceil_log2(max(round(n_bytes / 8) * ranks, 1)) if ranks > 1 else 0
    return Cost(steps, 8 * steps, is_bound=True)


ALGORITHM = Algorithm(
    "blelloch",
    "prefix",
    function=blelloch,
    cost=cost,
    expectations={"up": "log p", "down": "log p", "": "log p"},
)
