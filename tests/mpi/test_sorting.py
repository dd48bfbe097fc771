"""Sorters on real MPI: generated and real keys, checked soundly and against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.datasets import flights, inputs

pytestmark = pytest.mark.mpi
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


def sort_everything(comm: Any, sorter: str, cases: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    from labkit import registry
    from labkit.datasets import inputs
    from labkit.testing import check_sorted

    outcome = []
    for case in cases:
        keys = inputs.keys(rank=comm.rank, ranks=comm.size, **case)
        result = registry.get("sorting", sorter).function(comm, keys)
        check_sorted(comm, keys, result).require()
        outcome.append((keys, result))
    return outcome


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("sorter", registry.names("sorting"))
def test_generated_keys(sorter: str, ranks: int) -> None:
    cases = [
        {"name": name, "n_local": 200, "dtype": dtype, "lengths": lengths}
        for name, dtype in zip(inputs.INPUTS, DTYPES * 2, strict=False)
        for lengths in inputs.SIZES
    ]
    results = lk.run(sort_everything, ranks, on="mpi", args=(sorter, cases)).results
    for i, case in enumerate(cases):
        given, result = (np.concatenate([rank[i][side] for rank in results]) for side in range(2))
        np.testing.assert_array_equal(result, np.sort(given), err_msg=str(case))


def sort_flights(comm: Any, column: str) -> np.ndarray:
    from labkit.algorithms.sorting.sample_sort import sample_sort
    from labkit.datasets import flights

    return sample_sort(comm, flights.block(column, comm.rank, comm.size, "extract"), check="global")


@pytest.mark.parametrize("column", ["arr_delay", "distance"])
def test_flights(column: str) -> None:
    run = lk.run(sort_flights, 4, on="mpi", args=(column,))
    np.testing.assert_array_equal(np.concatenate(run.results), np.sort(flights.column(column, "extract")))
    assert run.phases["phase"].nunique() == 5


def one_wrong_dtype(comm: Any) -> str:
    from labkit.algorithms.sorting.sample_sort import sample_sort
    from labkit.errors import DataError

    try:
        sample_sort(comm, np.zeros(3, "i4" if comm.rank == 2 else "i8"))
    except DataError as error:
        return str(error)
    return "sorted"


def test_a_dtype_that_differs_is_refused_on_all_ranks() -> None:
    results = lk.run(one_wrong_dtype, 3, on="mpi").results
    assert len(set(results)) == 1
    assert "rank 2 passed int32" in results[0]
    assert "ranks 0, 1 passed int64" in results[0]


def test_both_machines_give_the_same_bits() -> None:
    cases = [
        {"name": "zipf", "n_local": 500, "dtype": "f8"},
        {"name": "bit_patterns", "n_local": 300, "dtype": "f4"},
    ]
    real = lk.run(sort_everything, 3, on="mpi", args=("sample_sort", cases)).results
    simulated = lk.run(sort_everything, 3, on="star:3", args=("sample_sort", cases)).results
    for mine, theirs in zip(real, simulated, strict=True):
        assert [result.tobytes() for _, result in mine] == [result.tobytes() for _, result in theirs]
