"""What every sorter promises, on the simulated machine: for any ranks, keys, lengths and duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.datasets import inputs

SORTERS = registry.names("sorting")
PROCESSES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 32]
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]

Case = dict[str, Any]


def sort_cases(comm: Any, sorter: str, cases: list[Case]) -> list[tuple[np.ndarray, np.ndarray, str]]:
    """Sort each case; return this rank's keys, its result and the sound checker's report."""
    from labkit import registry
    from labkit.datasets import inputs
    from labkit.testing import check_sorted

    outcome = []
    for case in cases:
        keys = inputs.keys(rank=comm.rank, ranks=comm.size, **case)
        given = keys.copy()
        result = registry.get("sorting", sorter).function(comm, keys)
        assert keys.tobytes() == given.tobytes(), "the sorter changed its input"
        report = check_sorted(comm, given, result)
        outcome.append((given, result, str(report.require())))
    return outcome


def require_sorted(results: list[list[tuple[np.ndarray, np.ndarray, str]]], cases: list[Case]) -> None:
    """Compare with NumPy, an oracle that shares nothing with the checker."""
    for i, case in enumerate(cases):
        given = np.concatenate([rank[i][0] for rank in results])
        result = np.concatenate([rank[i][1] for rank in results])
        assert result.dtype == given.dtype == np.dtype(case["dtype"]), case
        np.testing.assert_array_equal(result, np.sort(given), err_msg=str(case))
        if given.dtype.kind == "f":
            bits = f"u{given.itemsize}"
            assert sorted(given.view(bits).tolist()) == sorted(result.view(bits).tolist()), case


@pytest.mark.parametrize("ranks", PROCESSES)
@pytest.mark.parametrize("sorter", SORTERS)
def test_every_input_and_length(sorter: str, ranks: int) -> None:
    cases = [
        {"name": name, "n_local": 60, "dtype": dtype, "lengths": lengths, "seed": ranks}
        for name, dtype in zip(inputs.INPUTS, DTYPES * 2, strict=False)
        for lengths in inputs.SIZES
    ]
    run = lk.run(sort_cases, ranks, on=f"star:{ranks}", args=(sorter, cases))
    require_sorted(run.results, cases)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sorter", SORTERS)
def test_every_dtype(sorter: str, dtype: str) -> None:
    cases = [
        {"name": name, "n_local": n_local, "dtype": dtype}
        for name in ("bit_patterns", "uniform", "few_unique")
        for n_local in (0, 1, 200)
    ]
    run = lk.run(sort_cases, 5, on="star:5", args=(sorter, cases))
    require_sorted(run.results, cases)


@pytest.mark.parametrize("sorter", SORTERS)
def test_same_input_same_bits_and_same_time(sorter: str) -> None:
    cases = [{"name": "zipf", "n_local": 300, "dtype": "f8"}]
    runs = [lk.run(sort_cases, 7, on="star:7", args=(sorter, cases)) for _ in range(2)]
    blocks = [[rank[0][1].tobytes() for rank in run.results] for run in runs]
    assert blocks[0] == blocks[1]
    assert runs[0].makespan_s == runs[1].makespan_s
    assert runs[0].phases.equals(runs[1].phases)


def refused(comm: Any, sorter: str, mine: list[Any]) -> str:
    """The error this rank got; other than labkit's own are not caught."""
    from labkit import registry
    from labkit.errors import LabkitError

    try:
        registry.get("sorting", sorter).function(comm, mine[comm.rank])
    except LabkitError as error:
        return f"{type(error).__name__}: {error}"
    return "sorted"


@pytest.mark.parametrize("sorter", SORTERS)
@pytest.mark.parametrize(
    ("mine", "words"),
    [
        ([np.zeros(2), np.zeros(2, "i4"), np.zeros(2)], ["rank 1 passed int32", "ranks 0, 2 passed float64"]),
        ([np.zeros(2, "c16")] * 3, ["ranks 0, 1, 2 passed", "complex128"]),
        ([np.zeros(2), np.zeros((2, 2)), np.zeros(2)], ["rank 1 passed", "of 2 dimensions"]),
        ([np.zeros(2), np.array(["a"]), np.zeros(2)], ["rank 1 passed", "str"]),
        ([np.zeros(2), 3.0, np.zeros(2)], ["rank 1 passed", "of 0 dimensions"]),
    ],
)
def test_what_cannot_be_sorted_is_refused_on_every_rank(
    sorter: str, mine: list[Any], words: list[str]
) -> None:
    results = lk.run(refused, 3, on="star:3", args=(sorter, mine)).results
    assert len(set(results)) == 1
    assert results[0].startswith("DataError: ")
    for word in words:
        assert word in results[0]


@pytest.mark.parametrize("sorter", SORTERS)
def test_its_descriptor_is_complete(sorter: str) -> None:
    algorithm = registry.get("sorting", sorter)
    assert algorithm.cost is not None
    assert algorithm.cost(64, 8000).seconds(1e-6, 1e-9) > algorithm.cost(2, 8000).seconds(1e-6, 1e-9) > 0
    cases = [{"name": "uniform", "n_local": 50, "dtype": "i8"}]
    run = lk.run(sort_cases, 4, on="star:4", args=(sorter, cases))
    assert set(run.phases["phase"]) == set(algorithm.expectations) - {""}
