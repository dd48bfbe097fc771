"""The compiled node-local kernels give what NumPy gives: every integer type, every shape of input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import local
from labkit.errors import DataError
from tests.support.refusals import raises_code

DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
Keys = np.ndarray[Any, Any]


def keys_of(dtype: str, most: int = 300) -> st.SearchStrategy[Keys]:
    """Keys of every kind: few different ones, extremes, all bits at random; sometimes hundreds."""
    bounds = np.iinfo(dtype)
    elements = st.one_of(
        st.integers(max(-2, bounds.min), 2),
        st.sampled_from([bounds.min, bounds.min + 1, bounds.max - 1, bounds.max]),
        st.integers(bounds.min, bounds.max),
    )
    short = st.lists(elements, max_size=40).map(lambda items: np.array(items, dtype))
    bits = st.tuples(
        st.integers(0, 2**32), st.integers(0, most), st.integers(1, 8 * np.dtype(dtype).itemsize)
    )
    return st.one_of(short, bits.map(lambda drawn: random_keys(dtype, *drawn)))


def random_keys(dtype: str, seed: int, n: int, bits: int) -> Keys:
    """n keys with `bits` random bits each."""
    words = np.random.PCG64(seed).random_raw(n) >> np.uint64(64 - bits)
    return words.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)


def runs_of(dtype: str) -> st.SearchStrategy[tuple[Keys, Keys]]:
    """1 to 40 sorted runs of unequal lengths, empty ones among them."""
    cuts = st.lists(st.floats(0, 1), max_size=39)
    return st.tuples(keys_of(dtype), cuts).map(lambda drawn: as_runs(*drawn))


def as_runs(keys: Keys, cuts: list[float]) -> tuple[Keys, Keys]:
    places = sorted(int(cut * len(keys)) for cut in cuts)
    runs = [np.sort(run) for run in np.split(keys, places)]
    return np.concatenate(runs), np.array([len(run) for run in runs])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_merging_is_sorting(dtype: str, data: st.DataObject) -> None:
    keys, lengths = data.draw(runs_of(dtype))
    merged = local.merge(keys, lengths)
    assert merged.dtype == keys.dtype
    np.testing.assert_array_equal(merged, np.sort(keys))
    np.testing.assert_array_equal(local.merge_order(keys, lengths), np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [63, 64, 65, 1000, 20_000])
def test_every_number_of_runs_merges(dtype: str, n: int) -> None:
    keys = random_keys(dtype, n, n, 8 * np.dtype(dtype).itemsize)
    for k in [*range(1, 20), 40]:
        runs, lengths = as_runs(keys, [(i / k) ** 2 for i in range(1, k)])
        np.testing.assert_array_equal(local.merge(runs, lengths), np.sort(keys))
        if n <= 1000:
            np.testing.assert_array_equal(local.merge_order(runs, lengths), np.argsort(runs, kind="stable"))


def test_many_keys_merge_without_the_interpreters_lock() -> None:
    keys, lengths = as_runs(random_keys("u8", 3, 300_000, 64), [0.1, 0.5, 0.9])
    np.testing.assert_array_equal(local.merge(keys, lengths), np.sort(keys))
    np.testing.assert_array_equal(local.merge_order(keys, lengths), np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "?"])
def test_other_keys_merge_as_numpy_sorts_them(dtype: str) -> None:
    runs = [np.array([0, 1, np.nan]), np.array([-1, 1]), np.array([])]
    keys = np.concatenate([np.sort(run.astype(dtype)) for run in runs])
    np.testing.assert_array_equal(local.merge(keys, np.array([3, 2, 0])), np.sort(keys))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_unsorted_runs_give_an_order_of_the_keys_or_an_error(dtype: str, data: st.DataObject) -> None:
    keys = data.draw(keys_of(dtype))
    cut = data.draw(st.integers(0, len(keys)))
    try:
        merged = local.merge(keys, np.array([cut, len(keys) - cut]))
    except DataError:
        merged = keys  # found out
    np.testing.assert_array_equal(np.sort(merged), np.sort(keys))


def digits_of(keys: Keys, shift: int, bits: int) -> Keys:
    """Digits by the definition, with Python's integers."""
    offset = int(np.iinfo(keys.dtype).min)
    return np.array([(int(key) - offset) >> shift & ((1 << bits) - 1) for key in keys], np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_partition_orders_by_one_digit(dtype: str, data: st.DataObject) -> None:
    keys = data.draw(keys_of(dtype))
    shift = data.draw(st.integers(0, 8 * keys.itemsize - 1))
    bits = data.draw(st.integers(1, 16))
    digits = digits_of(keys, shift, bits)
    counts = local.digit_counts(keys, shift, bits)
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts, np.bincount(digits, minlength=1 << bits))
    expected = keys[np.argsort(digits, kind="stable")]
    np.testing.assert_array_equal(local.scatter(keys, counts, shift, bits), expected)
    np.testing.assert_array_equal(local.partition(keys, shift, bits)[0], expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_partitions_from_the_lowest_digit_sort(dtype: str, data: st.DataObject) -> None:
    keys = data.draw(keys_of(dtype))
    bits = data.draw(st.integers(1, 16))
    ordered = keys
    for shift in range(0, 8 * keys.itemsize, bits):
        ordered, _ = local.partition(ordered, shift, bits)
    np.testing.assert_array_equal(ordered, np.sort(keys))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_classification_agrees_with_searching(dtype: str, data: st.DataObject) -> None:
    keys = data.draw(keys_of(dtype))
    splitters = np.sort(data.draw(keys_of(dtype, most=100)))
    buckets = local.classify(keys, splitters)
    expected = np.searchsorted(splitters, keys, side="left")
    np.testing.assert_array_equal(buckets, expected)
    counts = np.bincount(expected, minlength=len(splitters) + 1)
    np.testing.assert_array_equal(local.histogram(keys, splitters), counts)
    ordered, its_counts = local.distribute(keys, splitters)
    np.testing.assert_array_equal(its_counts, counts)
    np.testing.assert_array_equal(ordered, keys[np.argsort(expected, kind="stable")])


@pytest.mark.parametrize("n", [0, 1, 5_000])
@pytest.mark.parametrize("m", [0, 1, 2, 3, 255, 256, 3000])
def test_any_number_of_splitters(n: int, m: int) -> None:
    keys, splitters = random_keys("i4", 1, n, 32), np.sort(random_keys("i4", 2, m, 32))
    expected = np.searchsorted(splitters, keys, side="left")
    np.testing.assert_array_equal(local.classify(keys, splitters), expected)
    assert local.histogram(keys, splitters).sum() == n


@pytest.mark.parametrize(
    "kernel", ["merge", "merge_order", "digit_counts", "scatter", "classify", "distribute"]
)
def test_strided_and_read_only_arrays_are_taken_and_not_changed(kernel: str) -> None:
    wide = random_keys("i8", 5, 200, 20)
    wide[::2] = np.sort(wide[::2])
    wide.flags.writeable = False
    keys, before = wide[::2], wide.copy()
    rest: dict[str, tuple[Any, ...]] = {
        "merge": (np.array([60, 40]),),
        "merge_order": (np.array([60, 40]),),
        "digit_counts": (3, 4),
        "scatter": (local.digit_counts(keys, 3, 4), 3, 4),
        "classify": (np.sort(wide)[::50],),
        "histogram": (np.sort(wide)[::50],),
        "distribute": (np.sort(wide)[::50],),
    }
    function = getattr(local, kernel)
    np.testing.assert_equal(function(keys, *rest[kernel]), function(keys.copy(), *rest[kernel]))
    np.testing.assert_array_equal(wide, before)


def test_what_is_wrong_is_said() -> None:
    keys = np.array([3, 1, 2])
    with raises_code(DataError, "wrong-type"):
        local.digit_counts(keys.astype(float), 0, 8)
    with raises_code(DataError, "wrong-type"):
        local.classify(keys.astype(">i8"), keys)
    with raises_code(DataError, "unsupported"):
        local.classify(keys, keys.astype(np.int32))
    with raises_code(DataError, "not-sorted", "splitters"):
        local.histogram(keys, keys)
    for shift, bits in [(-1, 4), (64, 4), (0, 0), (0, 17)]:
        with raises_code(DataError, "out-of-range", str(bits), str(shift)):
            local.partition(keys, shift, bits)
    with raises_code(DataError, "out-of-range", "-1", "0"):
        local.merge(keys, np.array([4, -1]))
    with raises_code(DataError, "count-mismatch", "2", "3"):
        local.merge_order(keys, np.array([2]))


@given(st.lists(st.integers(-3, 4), min_size=4, max_size=4), st.integers(0, 10))
def test_counts_of_other_keys_are_refused(counts: list[int], n: int) -> None:
    keys = random_keys("u1", 1, n, 2)
    if counts == local.digit_counts(keys, 0, 2).tolist():
        return
    with raises_code(DataError, "not-comparable"):
        local.scatter(keys, np.array(counts), 0, 2)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("n", [0, 1, 2, 100, 1024])
def test_few_keys_are_scattered_as_many_are(dtype: str, n: int) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    keys = np.random.default_rng(n).integers(0, 1 << min(bits, 62), n).astype(f"u{bits // 8}").view(dtype)
    keys[n // 2 :] = keys[: n - n // 2].copy()
    for shift in (0, 3, bits - 1):
        turned = keys.astype(object) + (1 << (bits - 1) if dtype[0] == "i" else 0)
        digit = np.array([(int(key) >> shift) % (1 << 16) for key in turned], np.int64)
        counts = local.digit_counts(keys, shift, 16)
        np.testing.assert_array_equal(
            local.scatter(keys, counts, shift, 16), keys[np.argsort(digit, kind="stable")]
        )
        for wrong in (counts + (np.arange(1 << 16) == 7), np.roll(counts, 1), counts[:-1]):
            if not np.array_equal(wrong, counts):
                with raises_code(DataError, "not-comparable"):
                    local.scatter(keys, wrong, shift, 16)
