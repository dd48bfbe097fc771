"""Any keys on any ranks: every sorter gives the one right result, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit import registry
from tests.support.sort_oracle import require_sorted

SORTERS = registry.names("sorting")
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
#: ranks, drawn by index so that Hypothesis shrinks to few
PROCESSES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 32]
#: sorter -> values of its options; the ones that are not here are tried with their defaults
OPTIONS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "sample_sort": {
        "oversampling": st.sampled_from([0.25, 1.0, 3.0]),
        "seed": st.sampled_from([None, 0, 7]),
    },
    "histogram_sort": {
        "tolerance": st.sampled_from([0.0, 0.05, 0.5]),
        "rounds": st.sampled_from([None, 1, 2]),
        "probes": st.integers(1, 20),
        "seed": st.integers(0, 5),
    },
    "exact_splitting_sort": {
        "sizes": st.sampled_from([None, "same"]),
        "median": st.sampled_from(["weighted", "binary", "ternary"]),
    },
    "radix_sort": {
        "bits": st.integers(1, 16),
        "exchange": st.sampled_from(["alltoallv", "messages"]),
        "skip_constant": st.booleans(),
    },
    "rquick_sort": {"seed": st.integers(0, 1 << 64)},
    "mini_sort": {
        "median": st.sampled_from(["ternary", "binary"]),
        "seed": st.integers(0, 1 << 64),
    },
}


def words_of(draw: st.DrawFn, dtype: str) -> st.SearchStrategy[int]:
    """Bit patterns of keys: from few values (ties), from extremes (NaN, zeros, infinities), or from all."""
    bits = 1 if dtype == "?" else 8 * np.dtype(dtype).itemsize
    extremes = [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    if dtype[0] == "f":
        special = np.array([np.inf, -np.inf, np.nan, -np.nan, -0.0, 1.0, np.finfo(dtype).tiny], dtype)
        extremes += special.view(f"u{bits // 8}").tolist()
    few = draw(st.lists(st.sampled_from(extremes), min_size=1, max_size=3))
    return draw(
        st.sampled_from([st.sampled_from(few), st.sampled_from(extremes), st.integers(0, (1 << bits) - 1)])
    )


@st.composite
def inputs_of_all_ranks(draw: st.DrawFn, dtype: str, keys_per_rank: int | None) -> list[np.ndarray]:
    """Every rank's keys: ragged blocks, empty ones included, unless the sorter wants a number of them."""
    ranks = draw(st.sampled_from(PROCESSES))
    least, most = (0, 12) if keys_per_rank is None else (keys_per_rank, keys_per_rank)
    lengths = draw(st.lists(st.integers(least, most), min_size=ranks, max_size=ranks))
    n = sum(lengths)
    words = draw(st.lists(words_of(draw, dtype), min_size=n, max_size=n))
    keys = np.array(words, f"u{np.dtype(dtype).itemsize}").view(dtype)
    shape = draw(st.sampled_from(["as drawn", "sorted", "reversed"]))
    if shape != "as drawn":
        keys = np.sort(keys)[:: -1 if shape == "reversed" else 1]
    return np.split(keys, np.cumsum(lengths)[:-1])


def sort(comm: Any, sorter: str, blocks: list[np.ndarray], options: dict[str, Any]) -> np.ndarray:
    from labkit import registry

    mine = blocks[comm.rank]
    before = mine.tobytes()
    result = registry.get("sorting", sorter).function(comm, mine, check="global", **options)
    assert mine.tobytes() == before, "the sorter changed its input"
    return result


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sorter", SORTERS)
@settings(deadline=None, max_examples=12)
@given(data=st.data())
def test_it_sorts_as_numpy_does(sorter: str, dtype: str, data: st.DataObject) -> None:
    needed = registry.get("sorting", sorter).requirements.keys_per_rank
    blocks = data.draw(inputs_of_all_ranks(dtype, needed))
    options = data.draw(st.fixed_dictionaries(OPTIONS.get(sorter, {})))
    run = lk.run(sort, len(blocks), on=f"star:{len(blocks)}", args=(sorter, blocks, options))
    require_sorted(blocks, run.results)
