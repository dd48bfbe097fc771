"""The demo's two programs: the sorters are the same, the keys and the checks differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit import registry
from labkit.algorithms.sort_checker import check_sorted
from labkit.context import phase
from labkit.datasets import flights, inputs

__all__ = ["FlightSort", "flight_keys", "sort_flights", "sort_generated"]

Keys = NDArray[Any]
#: this rank's block, and the checker's words, judgement and imbalance
FlightSort = tuple[Keys, str, bool, float]


def flight_keys(sorter: str, column: str, rank: int, ranks: int, source: flights.Source) -> Keys:
    """Return a rank's share of a column: all of it, or the first keys of it if the sorter takes no more."""
    wanted = registry.get("sorting", sorter).requirements.keys_per_rank
    return flights.block(column, rank, ranks, source)[:wanted]


def sort_flights(
    comm: Any, sorters: Sequence[str], columns: Sequence[str], source: flights.Source
) -> list[FlightSort]:
    """Sort columns of the flights with every sorter, columns within sorters."""
    done = []
    for sorter in sorters:
        sort = registry.get("sorting", sorter).function
        assert sort is not None
        for column in columns:
            with phase("read"):
                keys = flight_keys(sorter, column, comm.rank, comm.size, source)
            comm.Barrier()
            with phase(f"{sorter} {column}"):
                block = np.asarray(sort(comm, keys))
            with phase("check"):
                report = check_sorted(comm, keys, block)
            done.append((block, str(report), report.is_sorted, report.imbalance))
    return done


def sort_generated(comm: Any, sorter: str, n_local: int) -> Keys:
    """Sort n_local uniform keys per rank, drawn from the run's seed; making them costs no simulated time."""
    sort = registry.get("sorting", sorter).function
    assert sort is not None
    return np.asarray(sort(comm, inputs.keys("uniform", comm.rank, comm.size, n_local)))
