"""Tree search with subtrees that are dealt out once: nobody gets new work.

Every rank expands the top of the tree itself, until there are a few subtrees for each rank, and takes every
p-th of them. Whoever is done waits.

Cost, for n nodes on p ranks::

    search      the nodes of a rank's subtrees: n / p in the mean, more on the busiest rank
    end         one allgather

Requires: nothing. Any p. The nodes at the top are expanded by every rank, and counted on rank 0 alone.

Properties
    No message before the end. Balanced only if subtrees are alike, or many. In branch and bound a rank knows
    only what it has found itself, and expands more nodes than a search by one rank would.

Reference
    A. Grama, A. Gupta, G. Karypis, V. Kumar: Introduction to parallel computing. Addison-Wesley 2003,
    section 11.4.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.search.static import static
>>> from labkit.datasets.trees import Queens
>>> [found.value for found in lk.run(static, 2, on="star:2", args=(Queens(6),)).results]
[4, 4]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.algorithms.search._expansion import Expansion, Searched, combine, require_positive, subtrees
from labkit.datasets.trees import Tree
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "static"]


def static(comm: Intracomm, tree: Tree, *, per_rank: int = 4) -> Searched:
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
    with phase("search"):
        top = subtrees(tree, per_rank * comm.size)
        mine = Expansion(tree, list(top.stack)[comm.rank :: comm.size])
        if comm.rank == 0:
            mine.found, mine.expanded = top.found, top.expanded
        while mine.stack:
            mine.expand(1000)
    with phase("end"):
        return combine(comm, mine)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Bound the messages and bytes of the end."""
    return Cost(ceil_log2(ranks) + ranks, 64 * ranks, is_bound=True)


ALGORITHM = Algorithm(
    "static",
    "search",
    function=static,
    cost=cost,
    expectations={"end": "p"},
)
