"""Sorters on real MPI: generated and real keys, checked soundly, against the oracle and the simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.datasets import flights, inputs
from tests.support.sort_oracle import require_sorted

pytestmark = pytest.mark.mpi
SORTERS = registry.names("sorting")
GENERAL = [name for name in SORTERS if registry.get("sorting", name).requirements.keys_per_rank is None]
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]

Case = dict[str, Any]


def sort_everything(comm: Any, sorter: str, cases: list[Case]) -> list[tuple[Any, Any]]:
    from labkit import registry
    from labkit.algorithms.sort_checker import check_sorted
    from labkit.datasets import inputs

    outcome = []
    for case in cases:
        keys = inputs.keys(rank=comm.rank, ranks=comm.size, **case)
        given = keys.copy()
        result = registry.get("sorting", sorter).function(comm, keys)
        assert keys.tobytes() == given.tobytes(), "the sorter changed its input"
        check_sorted(comm, given, result).require()
        outcome.append((given, result))
    return outcome


def cases_for(sorter: str) -> list[Case]:
    needed = registry.get("sorting", sorter).requirements.keys_per_rank
    return [
        {"name": name, "n_local": needed or 200, "dtype": dtype, "lengths": lengths}
        for name, dtype in zip(inputs.INPUTS, DTYPES * 2, strict=False)
        for lengths in (["even"] if needed else inputs.SIZES)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("sorter", SORTERS)
def test_generated_keys_are_sorted_to_the_same_bits_as_in_simulation(sorter: str, ranks: int) -> None:
    cases = cases_for(sorter)
    real = lk.run(sort_everything, ranks, on="mpi", args=(sorter, cases)).results
    simulated = lk.run(sort_everything, ranks, on=f"star:{ranks}", args=(sorter, cases)).results
    for i, case in enumerate(cases):
        given, blocks, theirs = (
            [rank[i][side] for rank in results] for results, side in ((real, 0), (real, 1), (simulated, 1))
        )
        require_sorted(given, blocks, case)
        assert [block.tobytes() for block in blocks] == [block.tobytes() for block in theirs], case


def sort_flights(comm: Any, column: str, sorters: list[str]) -> list[np.ndarray]:
    from labkit import registry
    from labkit.datasets import flights

    keys = flights.block(column, comm.rank, comm.size, "extract")
    return [registry.get("sorting", name).function(comm, keys, check="global") for name in sorters]


@pytest.mark.parametrize("column", ["arr_delay", "distance"])
def test_flights(column: str) -> None:
    results = lk.run(sort_flights, 4, on="mpi", args=(column, GENERAL)).results
    for i in range(len(GENERAL)):
        found = np.concatenate([blocks[i] for blocks in results])
        np.testing.assert_array_equal(found, np.sort(flights.column(column, "extract")))


def phases_of(comm: Any, sorter: str) -> None:
    from labkit import registry

    registry.get("sorting", sorter).function(comm, np.array([comm.rank]))


@pytest.mark.parametrize("sorter", SORTERS)
def test_its_phases_are_marked(sorter: str) -> None:
    run = lk.run(phases_of, 3, on="mpi", args=(sorter,))
    assert set(run.phases["phase"]) == set(registry.get("sorting", sorter).expectations) - {""}


def one_wrong_dtype(comm: Any, sorters: list[str]) -> list[str]:
    from labkit import registry
    from labkit.errors import DataError

    outcome = []
    for name in sorters:
        try:
            registry.get("sorting", name).function(comm, np.zeros(1, "i4" if comm.rank == 2 else "i8"))
            outcome.append("sorted")
        except DataError as error:
            outcome.append(str(error))
    return outcome


def test_a_dtype_that_differs_is_refused_on_all_ranks() -> None:
    results = lk.run(one_wrong_dtype, 3, on="mpi", args=(list(SORTERS),)).results
    for texts in zip(*results, strict=True):
        assert len(set(texts)) == 1
        assert "rank 2 passed int32" in texts[0]
        assert "ranks 0, 1 passed int64" in texts[0]
