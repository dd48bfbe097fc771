"""Any keys on any ranks: sample sort agrees with NumPy, and keeps every bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk

DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]


@st.composite
def inputs_of_all_ranks(draw: st.DrawFn, dtype: str) -> list[np.ndarray]:
    """Ragged blocks, empty ones included; from few values (ties) or from all bit patterns (extremes, NaN)."""
    bits = 8 * np.dtype(dtype).itemsize
    extremes = [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    if dtype[0] == "f":
        special = np.array([np.inf, -np.inf, np.nan, -0.0, 1.0, np.finfo(dtype).tiny], dtype)
        extremes += special.view(f"u{bits // 8}").tolist()
    few = draw(st.lists(st.sampled_from(extremes), min_size=1, max_size=3))
    words = draw(
        st.sampled_from([st.sampled_from(few), st.sampled_from(extremes), st.integers(0, (1 << bits) - 1)])
    )
    blocks = draw(st.lists(st.lists(words, max_size=12), min_size=1, max_size=9))
    shape = draw(st.sampled_from(["as drawn", "sorted", "reversed"]))
    keys = np.array([word for block in blocks for word in block], f"u{bits // 8}").view(dtype)
    if shape != "as drawn":
        keys = np.sort(keys)[:: -1 if shape == "reversed" else 1]
    return np.split(keys, np.cumsum([len(block) for block in blocks])[:-1])


def sort(comm: Any, blocks: list[np.ndarray], options: dict[str, Any]) -> np.ndarray:
    from labkit.algorithms.sorting.sample_sort import sample_sort

    return sample_sort(comm, blocks[comm.rank], check="global", **options)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=40)
@given(data=st.data(), oversampling=st.sampled_from([0.25, 1.0, 3.0]), seed=st.sampled_from([None, 0, 7]))
def test_sample_sort_agrees_with_numpy(
    dtype: str, data: st.DataObject, oversampling: float, seed: int | None
) -> None:
    blocks = data.draw(inputs_of_all_ranks(dtype))
    options = {"oversampling": oversampling, "seed": seed}
    result = lk.run(sort, len(blocks), on=f"star:{len(blocks)}", args=(blocks, options)).results
    given_keys, sorted_keys = np.concatenate(blocks), np.concatenate(result)
    np.testing.assert_array_equal(sorted_keys, np.sort(given_keys))
    bits = f"u{np.dtype(dtype).itemsize}"
    assert sorted(sorted_keys.view(bits).tolist()) == sorted(given_keys.view(bits).tolist())
    assert {block.dtype for block in result} == {np.dtype(dtype)}
