"""Breadth-first search by levels on a grid of ranks: fewer partners for everybody.

The adjacency matrix is cut into blocks, one for each rank of a grid. In each level a frontier is
*expanded*: the ranks of a column of the grid tell each other their vertices in it (an allgather), so that
each can look at the edges in its block. The neighbors are *folded*: each is sent to its owner, which is in
the same row of the grid (an alltoall). A rank talks to its row and its column, 2 (sqrt(p) - 1) ranks
instead of p - 1.

Cost, for m edges and n vertices on p = q^2 ranks, d levels, words of w bytes::

    distribute    4 m / p w beta, once
    expand        d allgathers of q ranks: d log q alpha, and (n / q) w beta in all
    scan          O(m / p)
    fold          d alltoallv of q ranks: d (q - 1) alpha, and at most 2 (2 m / p) w beta in all
    agree         2 d log p alpha

Requires: nothing. The grid is the one of ``MPI.Compute_dims(p, 2)``; with a prime number of ranks it is one
column.

Properties
    The edges of a vertex of high degree are spread over a column of the grid.
    Levels and parents are those of `bfs_1d`, for any p.

Reference
    A. Yoo, E. Chow, K. Henderson, W. McLendon, B. Hendrickson, U. Catalyurek: A scalable distributed
    parallel breadth-first search algorithm on BlueGene/L. SC 2005, doi:10.1109/SC.2005.4. A. Buluc, K.
    Madduri: Parallel breadth-first search on distributed memory systems. SC 2011,
    doi:10.1145/2063384.2063471.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.graphs.bfs_2d import bfs_2d
>>> from labkit.datasets import graphs
>>> def program(comm):
...     return bfs_2d(comm, 9, graphs.grid(3, 3, comm.rank, comm.size), root=0)[0].tolist()
>>> lk.run(program, 4, on="star:4").results
[[0, 1], [2, 1], [2, 3], [2, 3, 4]]
"""

from __future__ import annotations

import math
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

__all__ = ["ALGORITHM", "bfs_2d", "cost"]


def bfs_2d(comm: Intracomm, n: int, edges: Rows, root: int) -> tuple[Rows, Rows]:
    """Search an undirected graph from a root; parameters, results and errors are those of `bfs_1d`."""
    from labkit import MPI

    edges = require_graph(n, edges, root)
    rows = MPI.Compute_dims(comm.size, 2)[0]
    # Rank j * rows + i is in row i and column j. So a column owns consecutive vertices, and the blocks with v
    # as a head are in the row of its owner, owner(v) % rows.
    j, i = divmod(comm.rank, rows)
    column, row = comm.Split(j, i), comm.Split(i, j)
    cuts = offsets(n, comm.size)
    first, end = cuts[comm.rank : comm.rank + 2]
    first_of_column, end_of_column = cuts[j * rows], cuts[(j + 1) * rows]
    with phase("distribute"):
        both = np.concatenate([edges, edges[:, ::-1]])
        tail, head = (owner_of(both[:, side], n, comm.size) for side in range(2))
        mine = exchange(comm, both, tail // rows * rows + head % rows)
        graph = Adjacency.of(mine[:, 0] - first_of_column, mine[:, 1], end_of_column - first_of_column)
    levels, parents = np.full((2, end - first), -1)
    frontier = np.arange(root, root + (first <= root < end)) - first
    levels[frontier], parents[frontier] = 0, root
    level = 0
    while True:
        with phase("agree"):
            if not comm.allreduce(len(frontier)):
                break
        level += 1
        with phase("expand"):
            counts = np.empty(rows, np.int64)
            column.Allgather(np.array([len(frontier)]), counts)
            everybodys = np.empty(int(counts.sum()), np.int64)
            column.Allgatherv(frontier + first, [everybodys, counts])
        with phase("scan"):
            places, owner = graph.edges_of(everybodys - first_of_column)
            found = np.column_stack([graph.heads[places], everybodys[owner]])
            found = found[least_of(found[:, 0], found[:, 1])]
        with phase("fold"):
            found = exchange(row, found, owner_of(found[:, 0], n, comm.size) // rows)
            found = found[levels[found[:, 0] - first] < 0]
            found = found[least_of(found[:, 0], found[:, 1])]
            frontier = found[:, 0] - first
            levels[frontier], parents[frontier] = level, found[:, 1]
    row.Free()
    column.Free()
    return levels, parents


def cost(ranks: int, n_bytes: float, levels: int = 1) -> Cost:
    """Predict messages and bytes of a rank with `n_bytes` of edges, both directions, on a square grid."""
    q = math.sqrt(ranks)
    rounds = ranks - 1 + (levels + 1) * (2 * (q - 1) + 2 * ceil_log2(ranks) + 2 * ceil_log2(math.ceil(q)))
    return Cost(rounds, 2 * n_bytes * (1 - 1 / q) + n_bytes * (1 - 1 / ranks), is_bound=True)


ALGORITHM = Algorithm("bfs_2d", "graphs", function=bfs_2d, cost=cost)
