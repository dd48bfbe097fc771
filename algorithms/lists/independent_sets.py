"""List ranking by removing independent sets: shorten the list until one rank can rank it, then go back.

In each round every element draws a bit, from a hash that all ranks can compute. An element with 0 whose
successor has 1 removes that successor: it takes over its link, longer by the links of the removed one. No two
neighbors are removed together, and a quarter of the list is on average. When few elements are left, rank 0
ranks them with the serial loop. Then the rounds go backwards: a removed element asks the one that was its
successor.

Cost, for n elements on p ranks, shortened to k elements::

    rounds      log(n / k) / log(4/3) forward and as many back, each two exchanges of all with all
    messages    at most 4 (p - 1) in a round there, and 4 (p - 1) back
    bytes       proportional to what is left: about 100 n / p in all
    work        a constant number of looks for each element; the serial part has k

Requires: nothing. Any p, any n, any number of lists.

Properties
    Ends after 4 log n rounds in any case: the first elements of many lists are left to rank 0 then.
    The bits depend on the element and the round only, so that the result and the rounds do not depend on p.

Reference
    R. J. Anderson, G. L. Miller: A simple randomized parallel algorithm for list-ranking. Information
    Processing Letters 33 (1990), doi:10.1016/0020-0190(90)90196-5. J. F. Sibeyn: List ranking on meshes. Acta
    Informatica 35 (1998), doi:10.1007/s002360050130.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.lists.independent_sets import independent_sets
>>> def program(comm):
...     return independent_sets(comm, 4, [[2, 0], [3, 3]][comm.rank], keep=1).tolist()
>>> lk.run(program, 2, on="star:2").results
[[2, 3], [1, 0]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit.algorithms.graphs._distributed import Rows, charge_edges, exchange
from labkit.algorithms.lists._elements import fetch_rows, require_list
from labkit.datasets.matrices import mixed
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "independent_sets"]

ROOT = 0


def independent_sets(comm: Intracomm, n: int, successors: ArrayLike, *, keep: int | None = None) -> Rows:
    """Return the number of links from each of this rank's elements to the end of its list.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    n : int
        Elements of all ranks.
    successors : array_like of int, shape (n_local,)
        Of this rank's elements; the last element of a list is its own successor.
    keep : int, optional
        The number of elements that are left to rank 0; default: 64 for each rank.

    Returns
    -------
    ndarray of int64, shape (n_local,)

    Raises
    ------
    DataError
        If there are more or fewer successors, one is no element, or keep is below 1.
    """
    target, first, end = require_list(n, successors, comm.rank, comm.size)
    keep = 64 * comm.size if keep is None else keep
    if keep < 1:
        raise DataError(f"keep must be at least 1, got {keep}", code="out-of-range")
    own = np.arange(first, end)
    links: NDArray[np.int64] = (target != own).astype(np.int64)
    is_left = links > 0  # the last element of a list is ranked already
    removed: list[Rows] = []
    most_rounds = 4 * ceil_log2(max(n, 2))  # first elements of many lists are never removed
    while len(removed) < most_rounds and _sum(comm, int(is_left.sum())) > keep:
        with phase("remove"):
            removing = np.flatnonzero(is_left & ~_bits(own, len(removed)) & _bits(target, len(removed)))
            answers, places = fetch_rows(comm, np.column_stack([target, links]), target[removing], n)
            places = places[links[places] > 0]  # the last element of a list stays
            removed.append(places)
            is_left[places] = False
            is_inner = answers[:, 1] > 0
            target[removing] = np.where(is_inner, answers[:, 0], target[removing])
            links[removing] += answers[:, 1]
    with phase("serial"):
        left = np.flatnonzero(is_left)
        _rank_at_root(comm, own[left], target, links, left, n)
    for places in reversed(removed):
        with phase("go back"):
            answers, _ = fetch_rows(comm, links[:, None], target[places], n)
            links[places] += answers[:, 0]
    return links


def _sum(comm: Intracomm, mine: int) -> int:
    with phase("agree"):
        return int(comm.allreduce(mine))


def _bits(elements: Rows, number: int) -> Any:
    """Return the bits of elements in a round."""
    words = elements.astype(np.uint64) + np.uint64(number * 0x9E3779B97F4A7C15 % 2**64)
    return mixed(words) & np.uint64(1) == 1


def _rank_at_root(comm: Intracomm, own: Rows, target: Rows, links: Rows, left: Rows, n: int) -> None:
    """Replace the links of the elements that are left by their ranks, which rank 0 computes."""
    me = np.full(len(own), comm.rank)
    sent = np.column_stack([own, target[left], links[left], me])
    rows = exchange(comm, sent, np.full(len(own), ROOT))
    if len(rows):
        charge_edges(3 * len(rows))
        position = np.full(n, -1)
        position[rows[:, 0]] = np.arange(len(rows))
        follower = position[rows[:, 1]]  # -1: the last element of a list
        waits_for: list[list[int]] = [[] for _ in rows]
        for at in np.flatnonzero(follower >= 0).tolist():
            waits_for[follower[at]].append(at)
        ready = np.flatnonzero(follower < 0).tolist()
        while ready:
            at = ready.pop()
            for before in waits_for[at]:
                rows[before, 2] += rows[at, 2]
                ready.append(before)
    answers = exchange(comm, rows[:, [0, 2]], rows[:, 3])
    links[left] = answers[np.argsort(answers[:, 0]), 1]


def cost(ranks: int, n_bytes: float, rounds: int = 1) -> Cost:
    """Bound the messages and bytes of a rank that has `n_bytes` of successors, for a number of rounds."""
    steps = 8 * rounds + 4
    messages = steps * (ranks - 1) + 2 * (rounds + 1) * ceil_log2(ranks)
    return Cost(messages, rounds * 8 * n_bytes + 64 * messages, is_bound=True)


ALGORITHM = Algorithm(
    "independent_sets",
    "lists",
    function=independent_sets,
    cost=cost,
    expectations={"remove": "p log p", "go back": "p log p", "serial": "p", "": "p log p"},
)
