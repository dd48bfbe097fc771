"""The flights sorted on real MPI, checked by the sound checker and against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labkit.datasets import flights
from labkit.demo.programs import sort_flights
from labkit.run import Run, run

__all__ = ["COLUMNS", "RealSort", "sort_on_real_mpi"]

COLUMNS = ("dep_delay", "arr_delay", "distance")
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class RealSort:
    """One column of the flights, sorted on real MPI.

    Attributes
    ----------
    column : str
    ranks : int
    keys, distinct, missing : int
        Number of keys, of different values, and of NaNs.
    report : str
        What the sound checker said.
    is_sorted : bool
        Whether the sound checker accepts the result.
    equals_numpy : bool
        Whether it equals ``numpy.sort`` of all keys.
    imbalance : float
        Largest block divided by the mean block.
    sort_s : float
        From the first rank's begin to the last rank's end of the sort, in seconds of wall-clock time.
    is_valid : bool
        Whether the time may be used for a verdict (each rank had a core).
    """

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
    ranks: Sequence[int],
    columns: Sequence[str] = COLUMNS,
    source: flights.Source = "package",
    done: Callable[[RealSort], None] = lambda result: None,
) -> list[RealSort]:
    """Sort columns of the flights on real MPI with each number of ranks.

    Parameters
    ----------
    ranks : sequence of int
    columns : sequence of str
        Of `labkit.datasets.flights.COLUMNS`.
    source : {"package", "extract"}
        All flights or the extract.
    done : callable
        Told of each result as soon as it is there.

    Raises
    ------
    MachineError
        If there is no MPI that works.
    """
    results = []
    for p in ranks:
        outcome = run(sort_flights, p, "mpi", args=(tuple(columns), source), timeout_s=TIMEOUT_S)
        for number, column in enumerate(columns):
            results.append(_examine(outcome, number, column, source))
            done(results[-1])
    return results


def _examine(outcome: Run, number: int, column: str, source: flights.Source) -> RealSort:
    """Compare one column's blocks with NumPy."""
    keys = flights.column(column, source)
    blocks = [rank[number] for rank in outcome.results]
    _, report, is_sorted, imbalance = blocks[0]
    result = np.concatenate([block[0] for block in blocks])
    return RealSort(
        column=column,
        ranks=outcome.ranks,
        keys=len(keys),
        distinct=len(np.unique(keys[~np.isnan(keys)])),
        missing=int(np.isnan(keys).sum()),
        report=report,
        is_sorted=is_sorted,
        equals_numpy=result.dtype == keys.dtype and np.array_equal(result, np.sort(keys), equal_nan=True),
        imbalance=imbalance,
        sort_s=_sort_s(outcome, number),
        is_valid=outcome.is_valid,
    )


def _sort_s(outcome: Run, number: int) -> float:
    """Return how long the number-th sort of a run took: its first phase's begin to its last one's end."""

    def entry(phase: str, column: str) -> list[float]:
        rows = outcome.phases[outcome.phases["phase"] == phase].sort_values("begin_s", kind="stable")
        return [float(times.iloc[number]) for _, times in rows.groupby("rank")[column]]

    return max(entry("merge", "end_s")) - min(entry("agree", "begin_s"))
