"""Minimum spanning forest and connected components by Boruvka's algorithm.

Every component chooses its lightest edge to another one; all these edges belong to the forest, and the
components that they join become one. Each round at least halves the number of components that can grow.
Owners of vertices keep the choices; chains of choices are shortened by pointer jumping until everybody
knows its new component.

Cost, for m edges and n vertices on p ranks, at most log n rounds, words of w bytes::

    distribute    3 m / p w beta, once
    choose        O(m / p) per round, one alltoallv
    jump          up to log n fetches per round, of two alltoallv each
    relabel       one fetch per round: up to 4 m / p w beta

In all O(log^2 n) exchanges of p - 1 messages.

Requires: nothing. Any p, any weights that compare; a rank may own no vertices. Loops are ignored.

Properties
    Deterministic: edges of equal weight are ordered by their ends, so the forest does not depend on p.
    A component's label is one of its vertices.

Reference
    O. Boruvka: O jistem problemu minimalnim. Prace Moravske prirodovedecke spolecnosti 3 (1926). S. Chung,
    A. Condon: Parallel implementation of Boruvka's minimum spanning tree algorithm. IPPS 1996,
    doi:10.1109/IPPS.1996.508073.

Examples
--------
>>> import numpy as np
>>> import labkit as lk
>>> from labkit.algorithms.graphs.boruvka import boruvka
>>> def program(comm):
...     edges, weights = np.array([[0, 1], [1, 2], [0, 2]]), np.array([1, 2, 3])
...     forest, labels = boruvka(comm, 4, edges, weights)
...     return forest.tolist(), labels.tolist()
>>> lk.run(program, 1, on="star:1").results
[([[0, 1, 1], [1, 2, 2]], [0, 0, 0, 3])]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labkit.algorithms.graphs._distributed import (
    Rows,
    charge_edges,
    exchange,
    fetch,
    least_of,
    owner_of,
    require_graph,
)
from labkit.datasets.matrices import offsets
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.registry import Algorithm

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "boruvka"]


def boruvka(comm: Intracomm, n: int, edges: Rows, weights: Rows) -> tuple[Rows, Rows]:
    """Return a minimum spanning forest of an undirected graph, and its components.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    n : int
        Number of vertices.
    edges : ndarray of int, shape (m, 2)
        This rank's share of the edges, each once, in any distribution.
    weights : ndarray of int, shape (m,)

    Returns
    -------
    forest : ndarray of int64, shape (k, 3)
        This rank's edges of the forest with their weights, smaller end first, in rising order.
    labels : ndarray of int64, shape (n_local,)
        For each vertex that this rank owns, a vertex that names its component.

    Raises
    ------
    DataError
        If edges or weights are not as required.
    """
    edges, weights = require_graph(n, edges), np.asarray(weights)
    if weights.shape != (len(edges),) or (weights.size and weights.dtype.kind != "i"):
        raise DataError(f"weights must be {len(edges)} integers, got {weights}", code="wrong-type")
    first, end = offsets(n, comm.size)[comm.rank : comm.rank + 2]
    labels = np.arange(first, end)
    ends = np.sort(edges, axis=1)
    left, right = ends.T  # the components of the two ends of each edge that is left
    forest = []
    while True:
        with phase("choose"):
            is_between = left != right
            left, right, ends, weights = (
                left[is_between],
                right[is_between],
                ends[is_between],
                weights[is_between],
            )
            charge_edges(len(ends))
            if not comm.allreduce(len(ends)):
                break
            # a row: component, weight, the edge's ends, the other component
            rows = np.concatenate(
                [
                    np.column_stack([own, weights, ends, other])
                    for own, other in ((left, right), (right, left))
                ]
            )
            rows = rows[least_of(*rows[:, :4].T)]
            rows = exchange(comm, rows, owner_of(rows[:, 0], n, comm.size))
            chosen = rows[least_of(*rows[:, :4].T)]
        with phase("jump"):
            above = np.arange(first, end)  # of each vertex that names a component, the one that it joins
            above[chosen[:, 0] - first] = chosen[:, 4]
            back = fetch(comm, above, chosen[:, 4], n)
            is_root = (back == chosen[:, 0]) & (chosen[:, 0] < chosen[:, 4])  # of two that chose each other
            above[chosen[is_root, 0] - first] = chosen[is_root, 0]
            forest.append(chosen[~is_root][:, [2, 3, 1]])
            while True:
                higher = fetch(comm, above, above, n)
                if not comm.allreduce(int(np.count_nonzero(higher != above))):
                    break
                above = higher
        with phase("relabel"):
            asked = fetch(comm, above, np.concatenate([labels, left, right]), n)
            labels, left, right = np.split(asked, np.cumsum([len(labels), len(left)]))
    found = np.concatenate(forest) if forest else np.empty((0, 3), np.int64)
    return found[np.lexsort(found.T[::-1])], labels


ALGORITHM = Algorithm("boruvka", "graphs", function=boruvka)
