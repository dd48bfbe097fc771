"""The demo's two programs: the sorter is the same, the keys and the checks differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.sorting.sample_sort import sample_sort
from labkit.context import phase
from labkit.datasets import flights, inputs
from labkit.testing import check_sorted

__all__ = ["sort_flights", "sort_generated"]

Keys = NDArray[Any]


def sort_flights(
    comm: Any, columns: tuple[str, ...], source: flights.Source
) -> list[tuple[Keys, str, bool, float]]:
    """Sort columns of the flights; return this rank's block and the sound checker's report of each."""
    with phase("read"):
        mine = [flights.block(column, comm.rank, comm.size, source) for column in columns]
    sorted_columns = []
    for keys in mine:
        with phase("wait for all"):
            comm.Barrier()
        block = sample_sort(comm, keys)
        with phase("check"):
            report = check_sorted(comm, keys, block)
        sorted_columns.append((np.asarray(block), str(report), report.is_sorted, report.imbalance))
    return sorted_columns


def sort_generated(comm: Any, n_local: int, seed: int = 0) -> Keys:
    """Sort n_local uniform keys per rank; making them costs no simulated time."""
    return sample_sort(comm, inputs.keys("uniform", comm.rank, comm.size, n_local, seed=seed))
