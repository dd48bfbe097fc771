"""Shortest paths from one vertex by delta-stepping: buckets of width delta, each settled in parallel.

Tentative distances are kept in buckets of width delta. All vertices of the first bucket that is not empty
are *relaxed* at once: each offers its neighbors a path. Edges shorter than delta (light ones) may put
vertices back into the same bucket, so it is repeated until it stays empty; then the heavy edges follow,
once. delta = 1 with whole weights is Dijkstra's algorithm with equal distances at once; delta as large as
any path is Bellman and Ford's. Small buckets waste rounds, large ones waste relaxations.

Cost, for m edges on p ranks, r rounds, x relaxations in all, words of w bytes::

    distribute    6 m / p w beta, once
    relax         O(x / p)
    exchange      r alltoallv: r (p - 1) alpha, at most 2 x / p w beta in all
    agree         2 r log p alpha

Requires: whole weights of at least 1. Any p; a rank may own no vertices.

Properties
    Distances do not depend on p or delta.
    A rank sends one offer for each neighbor and round: the shortest.

Reference
    U. Meyer, P. Sanders: Delta-stepping: a parallelizable shortest path algorithm. J. Algorithms 49 (2003),
    doi:10.1016/S0196-6774(03)00076-2.

Examples
--------
>>> import numpy as np
>>> import labkit as lk
>>> from labkit.algorithms.graphs.delta_stepping import delta_stepping
>>> def program(comm):
...     edges, weights = np.array([[0, 1], [1, 2], [0, 2]]), np.array([1, 1, 5])
...     return delta_stepping(comm, 3, edges, weights, root=0, delta=2).tolist()
>>> lk.run(program, 1, on="star:1").results
[[0, 1, 2]]
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
from labkit.errors import DataError
from labkit.program.context import count, phase
from labkit.registry import Algorithm

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "UNREACHED", "delta_stepping"]

#: the distance of a vertex that no path reaches
UNREACHED = np.iinfo(np.int64).max


def delta_stepping(comm: Intracomm, n: int, edges: Rows, weights: Rows, root: int, delta: int) -> Rows:
    """Return the lengths of shortest paths from a root.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    n : int
        Number of vertices.
    edges : ndarray of int, shape (m, 2)
        This rank's share of the edges, each once, in any distribution.
    weights : ndarray of int, shape (m,)
        Their lengths, at least 1.
    root : int
    delta : int
        The width of a bucket, at least 1.

    Returns
    -------
    ndarray of int64, shape (n_local,)
        Of the vertices that this rank owns; `UNREACHED` where no path leads.

    Raises
    ------
    DataError
        If edges, root, weights or delta are not as required.
    """
    from labkit import MPI

    edges, weights = require_graph(n, edges, root), np.asarray(weights)
    if weights.shape != (len(edges),) or (weights.size and (weights.dtype.kind != "i" or weights.min() < 1)):
        raise DataError(
            f"weights must be {len(edges)} integers of at least 1, got {weights}", code="out-of-range"
        )
    if delta < 1:
        raise DataError(f"delta must be at least 1, got {delta}", code="out-of-range")
    first, end = offsets(n, comm.size)[comm.rank : comm.rank + 2]
    with phase("distribute"):
        both = np.column_stack([np.concatenate([edges, edges[:, ::-1]]), np.concatenate([weights, weights])])
        mine = exchange(comm, both, owner_of(both[:, 0], n, comm.size))
        is_light = mine[:, 2] < delta
        light, heavy = (
            Adjacency.of(some[:, 0] - first, some[:, 1], end - first, some[:, 2])
            for some in (mine[is_light], mine[~is_light])
        )
    distances = np.full(end - first, UNREACHED)
    if first <= root < end:
        distances[root - first] = 0
    is_open = distances == 0  # has a distance that its light edges do not know

    def relax(graph: Adjacency, vertices: Rows) -> Rows:
        """Offer neighbors paths through these vertices; return this rank's vertices with a shorter one."""
        with phase("relax"):
            places, owner = graph.edges_of(vertices)
            count("relaxations", len(places))
            offers = np.column_stack(
                [graph.heads[places], distances[vertices][owner] + graph.weights[places]]
            )
            offers = offers[least_of(offers[:, 0], offers[:, 1])]
        with phase("exchange"):
            offers = exchange(comm, offers, owner_of(offers[:, 0], n, comm.size))
            offers = offers[least_of(offers[:, 0], offers[:, 1])]
            offers = offers[offers[:, 1] < distances[offers[:, 0] - first]]
            better: Rows = offers[:, 0] - first
            distances[better] = offers[:, 1]
            return better

    def first_bucket() -> int:
        """Agree on the first bucket that has an open vertex on any rank."""
        with phase("agree"):
            mine = distances[is_open].min(initial=UNREACHED) // delta
            return int(comm.allreduce(int(mine), op=MPI.MIN))

    bucket = first_bucket()
    while bucket < UNREACHED // delta:
        settled = np.zeros(end - first, bool)
        current = bucket
        while current == bucket:
            now = np.flatnonzero(is_open & (distances // delta == bucket))
            is_open[now], settled[now] = False, True
            is_open[relax(light, now)] = True
            current = first_bucket()
        is_open[relax(heavy, np.flatnonzero(settled))] = True
        bucket = first_bucket()
    return distances


ALGORITHM = Algorithm("delta_stepping", "graphs", function=delta_stepping)
