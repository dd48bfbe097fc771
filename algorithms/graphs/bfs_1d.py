"""Breadth-first search by levels, with the vertices and their edges distributed over the ranks.

Every rank owns a block of vertices with all their edges. In each level the ranks look at the edges of their
vertices in the frontier, and send each neighbor, with its parent, to its owner. An owner keeps what it has
not seen: the next frontier. All ranks agree on whether one is left.

Cost, for m edges and n vertices on p ranks, d levels, words of w bytes::

    distribute    4 m / p w beta, once; p - 1 messages
    scan          O(m / p) on average; vertices of high degree make it uneven
    exchange      d alltoallv: d (p - 1) alpha, and at most 2 (2 m / p) w beta in all
    agree         2 d log p alpha

Requires: nothing. Any p; a rank may own no vertices. Loops and repeated edges do no harm.

Properties
    Each rank sends a neighbor once per level, with its smallest parent there.
    Parents: any vertex of the level before; of several, the smallest one, so the result does not depend on p.

Reference
    A. Yoo, E. Chow, K. Henderson, W. McLendon, B. Hendrickson, U. Catalyurek: A scalable distributed parallel
    breadth-first search algorithm on BlueGene/L. SC 2005, doi:10.1109/SC.2005.4.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.graphs.bfs_1d import bfs_1d
>>> from labkit.datasets import graphs
>>> def program(comm):
...     return bfs_1d(comm, 9, graphs.grid(3, 3, comm.rank, comm.size), root=0)[0].tolist()
>>> lk.run(program, 3, on="star:3").results
[[0, 1, 2], [1, 2, 3], [2, 3, 4]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labkit.algorithms.graphs._distributed import (
    Adjacency,
    Rows,
    exchange,
    least_of,
    owner_of,
    require_graph,
)
from labkit.datasets.matrices import offsets
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "bfs_1d", "cost"]


def bfs_1d(comm: Intracomm, n: int, edges: Rows, root: int) -> tuple[Rows, Rows]:
    """Search an undirected graph from a root.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    n : int
        Number of vertices.
    edges : ndarray of int, shape (m, 2)
        This rank's share of the edges, each once, in any distribution.
    root : int

    Returns
    -------
    levels, parents : ndarray of int64, shape (n_local,)
        Of the vertices that this rank owns, from ``rank n // p`` to ``(rank + 1) n // p``; -1: not reached.
        The root is its own parent.

    Raises
    ------
    DataError
        If edges or the root are not of a graph of n vertices.
    """
    edges = require_graph(n, edges, root)
    first, end = offsets(n, comm.size)[comm.rank : comm.rank + 2]
    with phase("distribute"):
        both = np.concatenate([edges, edges[:, ::-1]])
        mine = exchange(comm, both, owner_of(both[:, 0], n, comm.size))
        graph = Adjacency.of(mine[:, 0] - first, mine[:, 1], end - first)
    levels, parents = np.full((2, end - first), -1)
    frontier = np.arange(root, root + (first <= root < end)) - first
    levels[frontier], parents[frontier] = 0, root
    level = 0
    while True:
        with phase("agree"):
            if not comm.allreduce(len(frontier)):
                return levels, parents
        level += 1
        with phase("scan"):
            places, owner = graph.edges_of(frontier)
            found = np.column_stack([graph.heads[places], frontier[owner] + first])
            found = found[least_of(found[:, 0], found[:, 1])]
        with phase("exchange"):
            found = exchange(comm, found, owner_of(found[:, 0], n, comm.size))
            found = found[levels[found[:, 0] - first] < 0]
            found = found[least_of(found[:, 0], found[:, 1])]
            frontier = found[:, 0] - first
            levels[frontier], parents[frontier] = level, found[:, 1]


def cost(ranks: int, n_bytes: float, levels: int = 1) -> Cost:
    """Predict messages and bytes of a rank with `n_bytes` of edges, both directions: one exchange a level."""
    rounds = (levels + 1) * (ranks - 1 + 2 * ceil_log2(ranks))
    return Cost(rounds, 2 * n_bytes * (1 - 1 / ranks), is_bound=True)


ALGORITHM = Algorithm("bfs_1d", "graphs", function=bfs_1d, cost=cost)
