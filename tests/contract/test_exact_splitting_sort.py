"""Exact splitting's own promises: exact sizes, stable cuts, bounded rounds, the sizes asked for."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.algorithms.sorting import exact_splitting_sort as module
from labkit.datasets import inputs

MEDIANS = ["weighted", "binary", "ternary"]
LENGTHS = ("even", "ragged", "one_rank", "odd_empty", "powers", "fewer")
Case = dict[str, Any]


def sort_all(comm: Any, cases: list[tuple[Case, Case]]) -> list[tuple[int, int, dict[str, Any]]]:
    """Sort every case; return the numbers of keys given and held, and what the search reports."""
    from labkit.algorithms.sorting.exact_splitting_sort import exact_splitting_sort
    from labkit.datasets import inputs

    outcome = []
    for case, options in cases:
        info: dict[str, Any] = {}
        keys = inputs.keys(rank=comm.rank, ranks=comm.size, **case)
        block = exact_splitting_sort(comm, keys, info=info, check="global", **options)
        outcome.append((len(keys), len(block), info))
    return outcome


def run_all(ranks: int, cases: list[tuple[Case, Case]]) -> list[tuple[list[int], list[int], dict[str, Any]]]:
    """For each case every rank's numbers of keys given and held, and the report all ranks agree on."""
    results = lk.run(sort_all, ranks, on=f"star:{ranks}", args=(cases,), timeout_s=600).results
    for rank in results:
        assert [info for _, _, info in rank] == [info for _, _, info in results[0]]
    return [
        ([rank[i][0] for rank in results], [rank[i][1] for rank in results], results[0][i][2])
        for i in range(len(cases))
    ]


@pytest.mark.parametrize(
    "ranks", [1, 2, 3, 5, 8, *(pytest.param(p, marks=pytest.mark.slow) for p in (16, 31))]
)
@pytest.mark.parametrize("median", MEDIANS)
def test_sizes_are_exact_and_rounds_bounded_whatever_the_keys(ranks: int, median: str) -> None:
    cases = [
        ({"name": name, "n_local": n_local, "lengths": lengths}, {"median": median})
        for i, name in enumerate(inputs.INPUTS)
        for n_local, lengths in [(60, length) for length in LENGTHS[i % 3 :: 3]] + [(1, "even"), (0, "even")]
    ]
    for (case, _), (given, held, info) in zip(cases, run_all(ranks, cases), strict=True):
        n = sum(given)
        assert held == module.block_sizes(n, ranks).tolist(), case
        assert sum(held) == n
        assert max(held) - min(held) <= 1
        assert max(held) == module.largest_block(n, ranks)
        require_progress(info, n, 3 / 4 if median == "weighted" else 1)
        if median == "weighted":
            assert info["rounds"] <= module.most_rounds(n), case


def require_progress(info: dict[str, Any], n: int, most: float) -> None:
    candidates = info["candidates"]
    assert len(info["open"]) == len(candidates) == info["rounds"] + 1
    assert candidates[0] in (0, n)
    assert info["open"][-1] == candidates[-1] == 0
    for before, after in pairwise(candidates):
        assert after <= before * most
        assert after < before


def test_the_bound_on_the_rounds() -> None:
    assert [module.most_rounds(n) for n in (0, 1, 2, 3, 4, 5)] == [0, 1, 2, 3, 4, 4]
    assert module.most_rounds(10**12) < 2.41 * np.log2(10.0**12) + 2


def lopsided(comm: Any, median: str, dtype: str) -> dict[str, Any]:
    """One rank holds nearly all keys, and the others' few keys lie at one end: medians of ranks mislead."""
    from labkit.algorithms.sorting.exact_splitting_sort import exact_splitting_sort

    top = int(np.iinfo(dtype).max)
    few, many = np.array([top - comm.rank]), np.arange(4096) + (top // 2 - 2048)
    info: dict[str, Any] = {}
    mine = (many if comm.rank == 1 else few).astype(dtype)
    exact_splitting_sort(comm, mine, median=median, info=info, check="global")
    return info


@pytest.mark.parametrize("dtype", ["i4", "i8", "u8"])
def test_weights_bound_the_rounds_where_medians_of_ranks_mislead(dtype: str) -> None:
    weighted = lk.run(lopsided, 31, on="star:31", args=("weighted", dtype)).results[0]
    require_progress(weighted, 4096 + 30, 3 / 4)
    for median in ("binary", "ternary"):
        misled = lk.run(lopsided, 31, on="star:31", args=(median, dtype)).results[0]
        require_progress(misled, 4096 + 30, 1)
        assert misled["candidates"][1] > 0.98 * misled["candidates"][0]
        assert misled["rounds"] > weighted["rounds"]


@pytest.mark.parametrize("name", ["all_equal", "few_unique", "uniform", "deterministic_duplicates"])
@pytest.mark.parametrize("lengths", ["even", "ragged", "powers"])
@pytest.mark.parametrize("sizes", [None, "same"])
def test_equal_keys_are_dealt_in_rank_order(
    name: str, lengths: str, sizes: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts: dict[int, Any] = {}
    blocks: dict[int, Any] = {}

    def spy(comm: Any, mine: Any, here: Any) -> Any:
        blocks[comm.rank], cuts[comm.rank] = mine.copy(), here.copy()
        return exchange(comm, mine, here)

    exchange = module.exchange
    monkeypatch.setattr(module, "exchange", spy)
    case = {"name": name, "n_local": 80, "lengths": lengths}
    ((given, held, _),) = run_all(6, [(case, {"sizes": sizes})])
    keys = np.concatenate([blocks[rank] for rank in range(6)])
    owners = np.repeat(np.arange(6), given)[np.argsort(keys, kind="stable")]
    for j, target in enumerate(np.cumsum(held)[:-1]):
        expected = np.bincount(owners[:target], minlength=6).tolist()
        assert [int(cuts[rank][j]) for rank in range(6)] == expected


def with_sizes(comm: Any, lengths: list[int], sizes: list[Any], options: dict[str, Any]) -> Any:
    """This rank's block, or the error it got."""
    from labkit.algorithms.sorting.exact_splitting_sort import exact_splitting_sort
    from labkit.errors import DataError

    keys = (np.arange(lengths[comm.rank]) * 7 + comm.rank) % 5
    try:
        return exact_splitting_sort(comm, keys, sizes=sizes[comm.rank], check="global", **options).tolist()
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("median", MEDIANS)
@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [
        ([10, 10, 10, 10], [0, 40, 0, 0]),
        ([40, 0, 0, 0], [10, 0, 10, 20]),
        ([3, 0, 5, 2], [1, 2, 3, 4]),
        ([0, 0, 0, 0], [0, 0, 0, 0]),
        ([1, 0, 0, 0], [0, 0, 0, 1]),
        ([5, 0, 9, 1], ["same"] * 4),
        ([2, 1, 0, 0], [np.int32(0), np.uint8(3), 0, 0]),
    ],
)
def test_sizes_asked_for_are_given(lengths: list[int], sizes: list[Any], median: str) -> None:
    results = lk.run(with_sizes, 4, on="star:4", args=(lengths, sizes, {"median": median})).results
    expected = lengths if sizes[0] == "same" else [int(size) for size in sizes]
    assert [len(block) for block in results] == expected
    everything = list(chain.from_iterable(results))
    assert everything == sorted(everything)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([3, 3, 4], "the ranks want 10 keys in all, but there are 9"),
        ([10, -1, 0], "sizes must be integers >= 0, got -1 on rank 1"),
        ([1 << 80, -(1 << 80), 9], "sizes must be integers >= 0, got -281474976710656 on rank 1"),
        ([None, 9, None], "ranks 0, 2 passed sizes='even'"),
        (["same", 3, 3], "rank 0 passed sizes='same'"),
        (["even"] * 3, "sizes must be None, \"same\" or an integer >= 0, got 'even'"),
        ([True] * 3, 'sizes must be None, "same" or an integer >= 0, got True'),
        ([2.5] * 3, 'sizes must be None, "same" or an integer >= 0, got 2.5'),
    ],
)
def test_sizes_that_cannot_be_are_refused_on_all_ranks(sizes: list[Any], words: str) -> None:
    results = lk.run(with_sizes, 3, on="star:3", args=([3, 3, 3], sizes, {})).results
    assert len(set(map(str, results))) == 1
    assert words in results[0]


def test_an_unknown_median_is_refused() -> None:
    results = lk.run(with_sizes, 2, on="star:2", args=([3, 3], [None, None], {"median": "mean"})).results
    assert set(results) == {'median must be one of "weighted", "binary", "ternary", got \'mean\''}


def phases(comm: Any, median: str) -> None:
    from labkit.algorithms.sorting.exact_splitting_sort import exact_splitting_sort
    from labkit.datasets import inputs

    exact_splitting_sort(comm, inputs.keys("uniform", comm.rank, comm.size, 500), median=median)


@pytest.mark.parametrize("median", MEDIANS)
def test_phases_and_their_order(median: str) -> None:
    run = lk.run(phases, 4, on="star:4", args=(median,))
    for rank in range(4):
        mine = run.phases[run.phases["rank"] == rank].sort_values("begin_s")
        assert mine["phase"].tolist() == ["agree", "local sort", "splitters", "exchange", "merge"]
