"""Compaction: keep some elements of a distributed array, in order, in blocks of equal length.

Each rank counts what it keeps. An exclusive scan of the counts tells it the place of its first element in the
result, and the sum of all counts who owns which places. Each element then moves once.

Cost, for n elements of w bytes on p ranks of which k are kept::

    scan        log p messages of 8 bytes, and the sum: 2 log p
    exchange    2 all-to-alls: at most 2 (p - 1) messages; at most w max(n, k) / p bytes leave a rank

Requires: nothing. Any p, any number of elements on a rank.

Properties
    Stable: the order of the elements is kept. Balanced: rank r has the places from ``r k // p`` to
    ``(r + 1) k // p`` of the result.

Reference
    G. E. Blelloch: Prefix sums and their applications. Technical report CMU-CS-90-190, 1990. J. JaJa: An
    introduction to parallel algorithms. Addison-Wesley 1992, chapter 2.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.prefix.compaction import compaction
>>> def program(comm):
...     values = [10 * comm.rank + k for k in range(4)]
...     return compaction(comm, values, [k != comm.rank for k in range(4)]).tolist()
>>> lk.run(program, 2, on="star:2").results
[[1, 2, 3], [10, 12, 13]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit.datasets.matrices import offsets
from labkit.errors import DataError
from labkit.program.context import compute, phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "compaction", "cost"]


def compaction(comm: Intracomm, values: ArrayLike, keep: ArrayLike) -> NDArray[Any]:
    """Return this rank's block of the elements that are kept.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    values : array_like, shape (n_local,)
        This rank's numbers, of the same type on all ranks; not changed.
    keep : array_like of bool, shape (n_local,)

    Returns
    -------
    ndarray, shape (n_local_kept,)

    Raises
    ------
    DataError
        If values and keep do not have one dimension and the same length, or keep is not boolean.
    """
    found, chosen = np.asarray(values), np.asarray(keep)
    if chosen.dtype != bool and chosen.size:
        raise DataError(f"keep must be boolean, got {chosen.dtype}", code="wrong-type")
    if found.ndim != 1 or found.shape != chosen.shape:
        raise DataError(
            f"values and keep must have the same length, got {found.shape} and {chosen.shape}",
            code="count-mismatch",
        )
    with phase("select"):
        compute(flops=float(len(found)))
        kept = found[chosen.astype(bool)]
    with phase("scan"):
        mine, place = np.array([len(kept)]), np.zeros(1, np.int64)
        comm.Exscan(mine, place)
        first = int(place[0]) if comm.rank else 0
        total = int(comm.allreduce(len(kept)))
    with phase("exchange"):
        edges = offsets(total, comm.size)
        going = np.diff(np.clip(edges, first, first + len(kept)))
        coming = np.empty_like(going)
        comm.Alltoall(going, coming)
        result = np.empty(int(coming.sum()), found.dtype)
        comm.Alltoallv([kept, going], [result, coming])
    return result


def cost(ranks: int, n_bytes: float) -> Cost:
    """Bound the messages and bytes of a rank that keeps at most `n_bytes`."""
    return Cost(2 * (ranks - 1) + 3 * ceil_log2(ranks), n_bytes + 8 * (ranks - 1), is_bound=True)


ALGORITHM = Algorithm(
    "compaction",
    "prefix",
    function=compaction,
    cost=cost,
    expectations={"select": "1", "scan": "log p", "exchange": "p", "": "p"},
)
