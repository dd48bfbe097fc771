"""Tree search with a master: rank 0 has the subtrees, and hands one to each rank that asks.

The master does not search. It adds the best known value to each subtree, and learns from each request.

Cost, for n nodes on p ranks, k p subtrees::

    ask         k p requests and answers, all of them to and from rank 0
    search      n / (p - 1), and at the end what is left of the largest subtree

Requires: nothing. Any p; a single rank searches alone.

Properties
    Balanced if subtrees are small. Small subtrees are many requests, and the master answers one at a time.

Reference
    A. Grama, A. Gupta, G. Karypis, V. Kumar: Introduction to parallel computing. Addison-Wesley 2003,
    section 3.4.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.search.master_worker import master_worker
>>> from labkit.datasets.trees import Queens
>>> [found.value for found in lk.run(master_worker, 2, on="star:2", args=(Queens(6),)).results]
[4, 4]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit import MPI
from labkit.algorithms.search._expansion import Expansion, Searched, combine, require_positive, subtrees
from labkit.datasets.trees import Tree
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "master_worker"]


def master_worker(comm: Intracomm, tree: Tree, *, per_rank: int = 16) -> Searched:
    """Search a tree.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    tree : Tree
        The same on all ranks.
    per_rank : int
        Subtrees for each rank.

    Returns
    -------
    Searched

    Raises
    ------
    DataError
        If per_rank is not positive.
    """
    require_positive(per_rank=per_rank)
    search = Expansion(tree, [])
    if comm.size == 1:
        search.stack.append(tree.root)
        _search(search)
    elif comm.rank == 0:
        with phase("search"):
            search = subtrees(tree, per_rank * comm.size)
        with phase("ask"):
            _hand_out(comm, search)
    else:
        with phase("ask"):
            best, node = comm.sendrecv(search.best, dest=0, source=0)
        while node is not None:
            search.learn(best)
            search.stack.append(node)
            _search(search)
            with phase("ask"):
                best, node = comm.sendrecv(search.best, dest=0, source=0)
    with phase("end"):
        return combine(comm, search)


def _search(search: Expansion) -> None:
    with phase("search"):
        while search.stack:
            search.expand(1000)


def _hand_out(comm: Intracomm, search: Expansion) -> None:
    """Answer requests: with a subtree while there are any, with None afterwards, to each rank once."""
    status = MPI.Status()
    working = comm.size - 1
    while working:
        search.learn(comm.recv(source=MPI.ANY_SOURCE, status=status))
        node = search.stack.popleft() if search.stack else None
        working -= node is None
        comm.send((search.best, node), dest=status.Get_source())


def cost(ranks: int, n_bytes: float, per_rank: int = 16) -> Cost:
    """Bound the messages and bytes of the master, with nodes of up to `n_bytes`."""
    requests = 2 * (per_rank * ranks + ranks)
    return Cost(requests + ceil_log2(ranks) + ranks, requests * (n_bytes + 100) + 64 * ranks, is_bound=True)


ALGORITHM = Algorithm(
    "master_worker",
    "search",
    function=master_worker,
    cost=cost,
    expectations={"end": "p"},
)
