"""The flights sorted on real MPI, checked by the sound checker and against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from labkit.cli.demo.plan import FlightSort, Plan, flight_keys, sort_flights
from labkit.datasets import flights
from labkit.launch.run import run
from labkit.result import Run

__all__ = ["RealSort", "sort_on_real_mpi"]

TIMEOUT_S = 120.0


@dataclass(frozen=True)
class RealSort:
    """One column of the flights, sorted by one sorter on real MPI.

    `keys`, `distinct`, `missing`: Number of keys, of different values, and of NaNs.
    `report`: What the sound checker said.
    `is_sorted`: Whether the sound checker accepts the result.
    `equals_numpy`: Whether it equals ``numpy.sort`` of all keys.
    `imbalance`: Largest block divided by the mean block.
    `sort_s`: From the first rank's begin to the last rank's end of the sort, in seconds of wall-clock time.
    `is_valid`: Whether the time may be used for a verdict (each rank had a core).
    """

    sorter: str
    column: str
    ranks: int
    keys: int
    distinct: int
    missing: int
    report: str
    is_sorted: bool
    equals_numpy: bool
    imbalance: float
    sort_s: float
    is_valid: bool

    @property
    def is_correct(self) -> bool:
        """Whether both oracles accept the result."""
        return self.is_sorted and self.equals_numpy


def sort_on_real_mpi(
    plan: Plan, source: flights.Source = "package", done: Callable[[list[RealSort]], None] = lambda _: None
) -> list[RealSort]:
    """Sort the flights on real MPI, every column with every sorter and every number of ranks."""
    results: list[RealSort] = []
    for p in plan.real:
        outcome = run(sort_flights, p, "mpi", args=(plan.sorters, plan.columns, source), timeout_s=TIMEOUT_S)
        for number, sorter in enumerate(plan.sorters):
            first = number * len(plan.columns)
            some = [
                _examine(outcome, first + place, sorter, column, source)
                for place, column in enumerate(plan.columns)
            ]
            results += some
            done(some)
    return results


def _examine(outcome: Run, number: int, sorter: str, column: str, source: flights.Source) -> RealSort:
    """Compare the blocks of one sort with NumPy."""
    p = outcome.ranks
    keys = np.concatenate([flight_keys(sorter, column, rank, p, source) for rank in range(p)])
    parts: list[FlightSort] = [rank[number] for rank in outcome.results]
    _, report, is_sorted, imbalance = parts[0]
    result = np.concatenate([part[0] for part in parts])
    times = outcome.phases[outcome.phases["phase"] == f"{sorter} {column}"]
    return RealSort(
        sorter=sorter,
        column=column,
        ranks=p,
        keys=len(keys),
        distinct=len(np.unique(keys[~np.isnan(keys)])),
        missing=int(np.isnan(keys).sum()),
        report=report,
        is_sorted=is_sorted,
        equals_numpy=result.dtype == keys.dtype and np.array_equal(result, np.sort(keys), equal_nan=True),
        imbalance=imbalance,
        sort_s=float(times["end_s"].max() - times["begin_s"].min()),
        is_valid=outcome.is_valid,
    )
