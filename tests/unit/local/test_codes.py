"""Codes: a bijection whose order is NumPy's, made total."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from labkit.errors import DataError
from labkit.local import from_codes, is_sortable, to_codes
from tests.support.refusals import raises_code

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


def patterns(dtype: str) -> st.SearchStrategy[np.ndarray]:
    """Arrays of arbitrary bit patterns: for floats NaNs with payloads, both zeros, subnormals."""
    if dtype == "?":
        return hnp.arrays("?", st.integers(0, 30))
    size = np.dtype(dtype).itemsize
    specials = [0, 1 << (8 * size - 1), (1 << (8 * size)) - 1, 1]
    elements = st.one_of(st.sampled_from(specials), st.integers(0, (1 << (8 * size)) - 1))
    return hnp.arrays(f"u{size}", st.integers(0, 30), elements=elements).map(lambda a: a.view(dtype))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_every_bit_pattern_comes_back(dtype: str, data: st.DataObject) -> None:
    keys = data.draw(patterns(dtype))
    assert from_codes(to_codes(keys), keys.dtype).tobytes() == keys.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_the_order_of_codes_is_numpys(dtype: str, data: st.DataObject) -> None:
    keys = data.draw(patterns(dtype))
    mine = from_codes(np.sort(to_codes(keys)), keys.dtype)
    np.testing.assert_array_equal(mine, np.sort(keys))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_zeros_and_nans_have_a_place(dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    nans = np.array([np.nan, -np.nan], dtype)
    payload = (nans.view(f"u{size}") + 1).astype(f"u{size}").view(dtype)
    keys = np.concatenate([nans, payload, np.array([0.0, -0.0, np.inf, -np.inf], dtype)])
    result = from_codes(np.sort(to_codes(keys)), keys.dtype)
    assert result[0] == -np.inf
    assert np.signbit(result[1:3]).tolist() == [True, False]
    assert result[3] == np.inf
    assert np.isnan(result[4:]).all()
    assert sorted(result.view(f"u{size}").tolist()) == sorted(keys.view(f"u{size}").tolist())


@pytest.mark.parametrize("dtype", ["c16", "O", "U3", "M8[s]", "g"])
def test_what_has_no_codes_is_refused(dtype: str) -> None:
    assert not is_sortable(np.dtype(dtype))
    with raises_code(DataError, "wrong-type"):
        to_codes(np.empty(2, dtype))
