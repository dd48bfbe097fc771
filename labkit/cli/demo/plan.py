"""The extent of a demo: its sorters, machines and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit import registry
from labkit.algorithms.sort_checker import check_sorted
from labkit.datasets import flights, inputs
from labkit.program.context import phase

__all__ = [
    "FULL",
    "KEYS_PER_RANK",
    "LARGE",
    "MACHINES",
    "QUICK",
    "FlightSort",
    "Plan",
    "flight_keys",
    "keys_per_rank",
    "sort_flights",
    "sort_generated",
    "title",
]

KEYS_PER_RANK = 1000

COLUMNS = ("dep_delay", "arr_delay", "distance")
#: the five of the paper, in the order in which they are shown
SORTERS = ("sample_sort", "histogram_sort", "exact_splitting_sort", "radix_sort", "mini_sort")

#: what a reader calls it -> a platform that grows with the ranks
MACHINES = {"star": "star", "torus": "torus", "fat tree": "fattree"}


@dataclass(frozen=True)
class Plan:
    """The extent of a demo.

    `real`: Numbers of ranks on real MPI.
    `simulated`: Numbers of ranks that are simulated and fitted: at least five, as a verdict needs.
    `larger`: One more number of ranks, predicted from the fits and then simulated.
    `columns`: Of the flights.
    `sorters`: Names of registered sorters.
    `machines`: Name -> platform.
    `limit_s`: Limit of host time of each simulated run.
    """

    real: tuple[int, ...]
    simulated: tuple[int, ...]
    larger: int
    columns: tuple[str, ...]
    sorters: tuple[str, ...] = SORTERS
    machines: Mapping[str, str] = field(default_factory=lambda: dict(MACHINES))
    limit_s: float | None = 60.0


FULL = Plan((1, 2, 4), (16, 32, 64, 128, 256), 512, COLUMNS)

#: minutes of work; the widest range of p, so the hardest test of every expectation
LARGE = Plan((1, 2, 4), (16, 32, 64, 128, 256, 512, 1024), 2048, COLUMNS, limit_s=None)

QUICK = Plan((1, 2), (4, 8, 16, 32, 64), 128, COLUMNS[2:])


def keys_per_rank(sorter: str) -> int:
    """Return how many keys a demo gives each rank: 1000, or what the sorter requires."""
    return registry.get("sorting", sorter).requirements.keys_per_rank or KEYS_PER_RANK


def title(sorter: str) -> str:
    """Return a sorter's name without underscores."""
    return sorter.replace("_", " ")


# The demo's two programs: the sorters are the same, the keys and the checks differ.

Keys = NDArray[Any]

#: this rank's block, and the checker's message, judgement and imbalance
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
