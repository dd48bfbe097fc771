"""Shared parts of list ranking: checked successors, and values that are fetched from other ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from labkit.algorithms.graphs._distributed import Rows, charge_edges, exchange, owner_of
from labkit.datasets.matrices import offsets
from labkit.errors import DataError

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["fetch_rows", "require_list"]


def require_list(n: int, successors: ArrayLike, rank: int, ranks: int) -> tuple[Rows, int, int]:
    """Return the successors of this rank's elements, its first element and the end; refuse anything else."""
    found = np.asarray(successors)
    first, end = (int(edge) for edge in offsets(n, ranks)[rank : rank + 2])
    if found.shape != (end - first,) or (found.size and found.dtype.kind not in "iu"):
        raise DataError(
            f"rank {rank} of {ranks} must have {end - first} of {n} successors, "
            f"got {found.dtype} of shape {found.shape}",
            code="count-mismatch",
        )
    if found.size and not 0 <= found.min() <= found.max() < n:
        raise DataError(
            f"successors must be 0 to {n - 1}, got {found.min()} to {found.max()}", code="out-of-range"
        )
    return found.astype(np.int64), first, end


def fetch_rows(comm: Intracomm, table: Rows, asked: Rows, n: int) -> tuple[Rows, Rows]:
    """Return the rows of elements wherever they are, and the places in `table` that others have asked for.

    `table` has a row for each element of this rank; each asked element is asked for once.
    """
    once, place = np.unique(asked, return_inverse=True)
    owner = owner_of(once, n, comm.size)
    requests = exchange(comm, np.column_stack([once, np.full(len(once), comm.rank)]), owner)
    places = requests[:, 0] - offsets(n, comm.size)[comm.rank]
    charge_edges(len(asked) + len(places))
    answers = exchange(comm, np.column_stack([requests[:, :1], table[places]]), requests[:, 1])
    found: Rows = answers[np.argsort(answers[:, 0]), 1:][place]
    return found, places
