"""Shared parts of the graph algorithms: owners of vertices, exchange of rows by destination, adjacency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from labkit.datasets.matrices import offsets
from labkit.errors import DataError
from labkit.program.context import compute

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Intracomm

__all__ = ["Adjacency", "Rows", "charge_edges", "exchange", "fetch", "least_of", "owner_of", "require_graph"]

Rows = NDArray[np.int64]
_Number = TypeVar("_Number", bound=np.generic)

#: operations that an edge costs, which is looked up at a random place of memory
_PER_EDGE = 10


class Adjacency(NamedTuple):
    """Edges sorted by their tails: those of tail t are from begin[t] to begin[t + 1]."""

    begin: NDArray[np.int64]
    heads: NDArray[np.int64]
    weights: NDArray[np.int64]

    @classmethod
    def of(cls, tails: Rows, heads: Rows, n: int, weights: Rows | None = None) -> Adjacency:
        """Sort edges by their tails, which are 0 to n - 1."""
        order = np.argsort(tails, kind="stable")
        charge_edges(len(tails))
        begin = np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=n))])
        return cls(begin, heads[order], weights[order] if weights is not None else np.empty(0, np.int64))

    def edges_of(self, tails: Rows) -> tuple[Rows, Rows]:
        """Return the places of all edges of these tails, and for each its place in `tails`."""
        counts = self.begin[tails + 1] - self.begin[tails]
        owner = np.repeat(np.arange(len(tails)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        charge_edges(len(owner))
        return self.begin[tails][owner] + within, owner


def charge_edges(count: int) -> None:
    """Charge a look at `count` edges."""
    compute(flops=float(_PER_EDGE * count))


def owner_of(vertices: Rows, n: int, ranks: int) -> Rows:
    """Return the rank that owns each vertex."""
    return np.searchsorted(offsets(n, ranks), vertices, "right") - 1


def exchange(comm: Comm, rows: NDArray[_Number], destination: Rows) -> NDArray[_Number]:
    """Send each row of numbers to its destination; return the rows that arrive, by source."""
    order = np.argsort(destination, kind="stable")
    width = rows.shape[1]
    going = np.bincount(destination, minlength=comm.size) * width
    coming = np.empty_like(going)
    comm.Alltoall(going, coming)
    arrived = np.empty(int(coming.sum()), rows.dtype)
    comm.Alltoallv([np.ascontiguousarray(rows[order]).ravel(), going], [arrived, coming])
    return arrived.reshape(-1, width)


def fetch(comm: Intracomm, mine: Rows, vertices: Rows, n: int) -> Rows:
    """Return the values of vertices, wherever they are; `mine` has those of this rank's own vertices."""
    asked, place = np.unique(vertices, return_inverse=True)
    owner = owner_of(asked, n, comm.size)
    me = np.full(len(asked), comm.rank)
    requests = exchange(comm, np.column_stack([asked, me]), owner)
    first = offsets(n, comm.size)[comm.rank]
    replies = np.column_stack([requests[:, 0], mine[requests[:, 0] - first]])
    answers = exchange(comm, replies, requests[:, 1])
    found: Rows = answers[np.argsort(answers[:, 0], kind="stable"), 1][place]
    return found


def least_of(keys: Rows, *by: Rows) -> Rows:
    """Return the places of one row for each key, in the order of keys: the first by the other columns."""
    order = np.lexsort((*by[::-1], keys))
    is_first = np.ones(len(order), bool)
    is_first[1:] = keys[order][1:] != keys[order][:-1]
    return order[is_first]


def require_graph(n: int, edges: Any, root: int | None = None) -> Rows:
    """Return the edges; refuse what are no edges of a graph of n vertices."""
    found = np.asarray(edges)
    if found.ndim != 2 or found.shape[1] != 2 or (found.size and found.dtype.kind not in "iu"):
        raise DataError(
            f"edges must be integers of shape (m, 2), got {found.dtype} of shape {found.shape}",
            code="wrong-type",
        )
    if found.size and not 0 <= found.min() <= found.max() < n:
        raise DataError(
            f"vertices must be 0 to {n - 1}, got {found.min()} to {found.max()}", code="out-of-range"
        )
    if root is not None and not 0 <= root < n:
        raise DataError(f"root must be a vertex from 0 to {n - 1}, got {root}", code="out-of-range")
    return found.astype(np.int64)
