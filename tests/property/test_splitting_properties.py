"""The splitters of histogram sort and exact splitting, for any keys: sizes, balance, rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.algorithms.sorting import exact_splitting_sort, histogram_sort
from tests.support.sort_oracle import require_sorted

PROCESSES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 32]
#: few different keys, or neighbors of the ends of their range
KEYS = st.one_of(st.integers(0, 3), st.sampled_from([-(1 << 63), -1, (1 << 63) - 1]), st.integers(-500, 500))


@st.composite
def blocks_of_all_ranks(draw: st.DrawFn, most: int = 40) -> list[np.ndarray]:
    ranks = draw(st.sampled_from(PROCESSES))
    lengths = draw(st.lists(st.sampled_from([0, 1, 2, 5, most]), min_size=ranks, max_size=ranks))
    keys = draw(st.lists(KEYS, min_size=1, max_size=60))
    repeated = np.resize(np.array(keys, np.int64), sum(lengths))
    if draw(st.booleans()):
        repeated = np.sort(repeated)
    return np.split(repeated, np.cumsum(lengths)[:-1])


@st.composite
def blocks_and_sizes(draw: st.DrawFn) -> tuple[list[np.ndarray], list[int]]:
    blocks = draw(blocks_of_all_ranks())
    n = sum(map(len, blocks))
    ends = sorted(draw(st.lists(st.integers(0, n), min_size=len(blocks) - 1, max_size=len(blocks) - 1)))
    return blocks, np.diff([0, *ends, n]).tolist()


def sort(
    comm: Any, sorter: str, blocks: list[np.ndarray], sizes: list[int] | None, options: dict[str, Any]
) -> tuple[np.ndarray, dict[str, Any]]:
    from labkit import registry

    info: dict[str, Any] = {}
    if sizes is not None:
        options = {**options, "sizes": sizes[comm.rank]}
    block = registry.get("sorting", sorter).function(comm, blocks[comm.rank], info=info, **options)
    return block, info


def run(*arguments: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
    ranks = len(arguments[1])
    results = lk.run(sort, ranks, on=f"star:{ranks}", args=arguments).results
    assert all(info == results[0][1] for _, info in results)
    return [block for block, _ in results], results[0][1]


@settings(deadline=None, max_examples=60)
@given(blocks_and_sizes(), st.sampled_from(["weighted", "binary", "ternary"]))
def test_any_sizes_are_met_exactly(case: tuple[list[np.ndarray], list[int]], median: str) -> None:
    blocks, sizes = case
    result, info = run("exact_splitting_sort", blocks, sizes, {"median": median})
    assert [len(block) for block in result] == sizes
    require_sorted(blocks, result)
    n = sum(sizes)
    assert info["rounds"] <= (exact_splitting_sort.most_rounds(n) if median == "weighted" else n)


@settings(deadline=None, max_examples=60)
@given(
    blocks_of_all_ranks(),
    st.floats(0, 2),
    st.one_of(st.none(), st.integers(1, 3)),
    st.integers(1, 20),
    st.integers(0, 1 << 32),
)
def test_any_tolerance_is_met(
    blocks: list[np.ndarray], tolerance: float, rounds: int | None, probes: int, seed: int
) -> None:
    options = {"tolerance": tolerance, "rounds": rounds, "probes": probes, "seed": seed}
    result, info = run("histogram_sort", blocks, None, options)
    require_sorted(blocks, result)
    n, p = sum(map(len, blocks)), len(blocks)
    largest = max(map(len, result))
    assert largest <= -(-n // p) + 2 * info["largest_miss"]
    if rounds is None or info["rounds"] < rounds:
        assert largest <= histogram_sort.largest_block(n, p, tolerance)
    else:
        assert info["rounds"] == rounds


def uniform(comm: Any, sorter: str, n_local: int) -> tuple[int, dict[str, Any]]:
    from labkit import registry
    from labkit.datasets import inputs

    info: dict[str, Any] = {}
    keys = inputs.keys("zipf", comm.rank, comm.size, n_local, dtype="f8")
    block = registry.get("sorting", sorter).function(comm, keys, info=info, check="global")
    return len(block), info


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [100, 257, 1024])
@pytest.mark.parametrize("sorter", ["histogram_sort", "exact_splitting_sort"])
def test_many_ranks(sorter: str, ranks: int) -> None:
    results = lk.run(uniform, ranks, on=f"star:{ranks}", args=(sorter, 100), timeout_s=300).results
    assert sum(length for length, _ in results) == 100 * ranks
    if sorter == "exact_splitting_sort":
        assert {length for length, _ in results} == {100}
        assert results[0][1]["rounds"] <= exact_splitting_sort.most_rounds(100 * ranks)
    else:
        assert max(length for length, _ in results) <= histogram_sort.largest_block(100 * ranks, ranks)
        assert results[0][1]["rounds"] <= 4
