"""What every sorter promises, on the simulated machine: for any ranks, keys, lengths and duplicates."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.datasets import inputs
from tests.support.sort_oracle import require_sorted

SORTERS = registry.names("sorting")
#: those that take any number of keys per rank
GENERAL = [name for name in SORTERS if registry.get("sorting", name).requirements.keys_per_rank is None]
MORE = [pytest.param(p, marks=pytest.mark.slow) for p in (6, 9, 13, 17, 32)]
PROCESSES = [1, 2, 3, 4, 5, 7, 8, 16, *MORE]
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]

Case = dict[str, Any]
Outcome = list[tuple[np.ndarray, np.ndarray]]


def sort_cases(comm: Any, sorter: str, cases: list[Case]) -> Outcome:
    """Sort each case; return this rank's keys and its result, which the sound checker has accepted."""
    from labkit import registry
    from labkit.algorithms.sort_checker import check_sorted
    from labkit.datasets import inputs

    outcome = []
    for case in cases:
        keys = inputs.keys(rank=comm.rank, ranks=comm.size, **case)
        given = keys.copy()
        result = registry.get("sorting", sorter).function(comm, keys)
        assert keys.tobytes() == given.tobytes(), "the sorter changed its input"
        assert not np.shares_memory(keys, result), "the result is the caller's own array"
        check_sorted(comm, given, result).require()
        outcome.append((given, result))
    return outcome


def module_of(sorter: str) -> ModuleType:
    return importlib.import_module(f"labkit.algorithms.sorting.{sorter}")


def fitting(sorter: str, cases: list[Case]) -> list[Case]:
    """The cases with as many keys per rank as the sorter requires, each once."""
    needed = registry.get("sorting", sorter).requirements.keys_per_rank
    if needed is None:
        return cases
    unequal = {tuple({**case, "n_local": needed, "lengths": "even"}.items()) for case in cases}
    return [dict(items) for items in sorted(unequal, key=str)]


def require_promises(sorter: str, results: list[Outcome], cases: list[Case]) -> None:
    """Compare with the oracle, and hold the sorter to the balance that it claims for its default options."""
    module = module_of(sorter)
    for i, case in enumerate(cases):
        given, blocks = ([rank[i][side] for rank in results] for side in range(2))
        require_sorted(given, blocks, case)
        assert blocks[0].dtype == np.dtype(case["dtype"])
        lengths = [len(block) for block in blocks]
        n, p = sum(lengths), len(lengths)
        assert max(lengths) <= module.largest_block(n, p), case
        if hasattr(module, "block_sizes"):
            assert lengths == list(module.block_sizes(n, p)), case


@pytest.mark.parametrize("ranks", PROCESSES)
@pytest.mark.parametrize("sorter", SORTERS)
def test_every_input_and_length(sorter: str, ranks: int) -> None:
    every = list(inputs.SIZES)
    cases = [
        {"name": name, "n_local": 40, "dtype": dtype, "lengths": lengths, "seed": ranks}
        for i, (name, dtype) in enumerate(zip(inputs.INPUTS, DTYPES * 2, strict=False))
        # On more ranks each input with two of the lengths: all with all are on few.
        for lengths in (every if ranks < 4 else (every[i % 6], every[(i + 2 + i // 6) % 6]))
    ]
    cases = fitting(sorter, cases)
    run = lk.run(sort_cases, ranks, on=f"star:{ranks}", args=(sorter, cases))
    require_promises(sorter, run.results, cases)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sorter", SORTERS)
def test_every_dtype(sorter: str, dtype: str) -> None:
    cases = [
        {"name": name, "n_local": n_local, "dtype": dtype, "lengths": "even", "seed": seed}
        for name in ("bit_patterns", "uniform", "few_unique")
        for n_local, seed in ((0, 0), (1, 1), (1, 2), (200, 3))
    ]
    cases = fitting(sorter, cases)
    run = lk.run(sort_cases, 5, on="star:5", args=(sorter, cases))
    require_promises(sorter, run.results, cases)


@pytest.mark.parametrize("sorter", SORTERS)
def test_same_input_same_bits_and_same_time(sorter: str) -> None:
    cases = fitting(sorter, [{"name": "zipf", "n_local": 300, "dtype": "f8", "lengths": "ragged"}])
    runs = [lk.run(sort_cases, 7, on="star:7", args=(sorter, cases)) for _ in range(2)]
    blocks = [[rank[0][1].tobytes() for rank in run.results] for run in runs]
    assert blocks[0] == blocks[1]
    assert runs[0].makespan_s == runs[1].makespan_s
    assert runs[0].phases.equals(runs[1].phases)


@pytest.mark.parametrize("sorter", SORTERS)
def test_the_machine_changes_the_time_and_no_bit(sorter: str) -> None:
    cases = fitting(sorter, [{"name": "few_unique", "n_local": 99, "dtype": "f4", "lengths": "ragged"}])
    machines = ["star:6", "star:6,bw=1MBps,lat=1ms", "star:6,model=cm02"]
    runs = [lk.run(sort_cases, 6, on=machine, args=(sorter, cases)) for machine in machines]
    assert len({tuple(rank[0][1].tobytes() for rank in run.results) for run in runs}) == 1
    assert len({run.makespan_s for run in runs}) == len(machines)


def refused(comm: Any, sorter: str, mine: list[Any], options: list[dict[str, Any]]) -> str:
    """The error this rank got; other than labkit's own are not caught."""
    from labkit import registry
    from labkit.errors import LabkitError

    try:
        registry.get("sorting", sorter).function(comm, mine[comm.rank], **options[comm.rank])
    except LabkitError as error:
        return f"{type(error).__name__}: {error}"
    return "sorted"


def require_refused(sorter: str, mine: list[Any], options: list[dict[str, Any]], words: list[str]) -> None:
    results = lk.run(refused, 3, on="star:3", args=(sorter, mine, options)).results
    assert len(set(results)) == 1
    assert results[0].startswith("DataError: ")
    for word in words:
        assert word in results[0]


@pytest.mark.parametrize("sorter", SORTERS)
@pytest.mark.parametrize(
    ("mine", "words"),
    [
        ([np.zeros(1), np.zeros(1, "i4"), np.zeros(1)], ["rank 1 passed int32", "ranks 0, 2 passed float64"]),
        ([np.zeros(1, "c16")] * 3, ["ranks 0, 1, 2 passed", "complex128"]),
        ([np.zeros(1), np.zeros((1, 1)), np.zeros(1)], ["rank 1 passed", "of 2 dimensions"]),
        ([np.zeros(1), np.array(["a"]), np.zeros(1)], ["rank 1 passed", "text"]),
        ([np.zeros(1), None, np.zeros(1)], ["rank 1 passed", "object"]),
        ([np.zeros(1), [1], [2]], ["rank 0 passed float64", "ranks 1, 2 passed int64"]),
    ],
)
def test_what_cannot_be_sorted_is_refused_on_every_rank(
    sorter: str, mine: list[Any], words: list[str]
) -> None:
    require_refused(sorter, mine, [{}] * 3, words)


@pytest.mark.parametrize("sorter", GENERAL)
def test_a_lone_number_is_no_array_of_keys(sorter: str) -> None:
    require_refused(sorter, [np.zeros(2), 3.0, np.zeros(2)], [{}] * 3, ["rank 1 passed", "of 0 dimensions"])


@pytest.mark.parametrize("sorter", SORTERS)
def test_options_that_differ_are_refused_on_every_rank(sorter: str) -> None:
    keys = [np.zeros(1, "u2")] * 3
    require_refused(
        sorter, keys, [{}, {"check": "local"}, {}], ["the ranks disagree", "rank 1 passed check='local'"]
    )


@pytest.mark.parametrize("sorter", SORTERS)
def test_an_unknown_check_is_refused_on_every_rank(sorter: str) -> None:
    keys, options = [np.zeros(1, "u2")] * 3, [{"check": "perhaps"}] * 3
    require_refused(sorter, keys, options, ['check must be "off", "local" or "global"', "'perhaps'"])


@pytest.mark.parametrize("check", ["off", "local", "global"])
@pytest.mark.parametrize("sorter", SORTERS)
def test_its_own_check_passes(sorter: str, check: str) -> None:
    keys = [np.array([key], "f4") for key in (2.0, np.nan, -0.0)]
    results = lk.run(refused, 3, on="star:3", args=(sorter, keys, [{"check": check}] * 3)).results
    assert results == ["sorted"] * 3


@pytest.mark.parametrize("sorter", SORTERS)
def test_its_descriptor_is_complete(sorter: str) -> None:
    algorithm = registry.get("sorting", sorter)
    assert algorithm.cost is not None
    assert algorithm.cost(64, 8000).seconds(1e-6, 1e-9) > algorithm.cost(2, 8000).seconds(1e-6, 1e-9) > 0
    cases = fitting(sorter, [{"name": "uniform", "n_local": 50, "dtype": "i8"}])
    run = lk.run(sort_cases, 4, on="star:4", args=(sorter, cases))
    assert set(run.phases["phase"]) == set(algorithm.expectations) - {""}
    for part in (
        "Cost",
        "Requires:",
        "Properties",
        "Balance" if sorter in GENERAL else "",
        "doi:10.",
        ">>> ",
    ):
        assert part in (module_of(sorter).__doc__ or "")


@pytest.mark.parametrize("sorter", SORTERS)
def test_its_phases_cover_its_time(sorter: str) -> None:
    def program(comm: Any) -> None:
        from labkit import registry
        from labkit.datasets import inputs

        n = registry.get("sorting", sorter).requirements.keys_per_rank or 100
        registry.get("sorting", sorter).function(comm, inputs.keys("uniform", comm.rank, comm.size, n))

    run = lk.run(program, 9, on="star:9")
    spent = (run.phases["end_s"] - run.phases["begin_s"]).groupby(run.phases["rank"]).sum()
    assert spent.max() == pytest.approx(run.makespan_s, rel=1e-6)
