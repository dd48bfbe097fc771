"""Generated inputs: the same bits everywhere, and each with the property it is there for."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from labkit.datasets import inputs
from labkit.errors import DataError
from tests.support.refusals import raises_code

DTYPES = ["?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8"]


def blocks(name: str, ranks: int, n_local: int, **options: object) -> list[np.ndarray]:
    return [inputs.keys(name, rank, ranks, n_local, **options) for rank in range(ranks)]


def slices(block: np.ndarray, ranks: int) -> np.ndarray:
    """The slice in which each float key of a block lies."""
    return np.floor(block * ranks).astype(int)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", inputs.INPUTS)
def test_every_input_in_every_dtype_and_size(name: str, dtype: str) -> None:
    for lengths in inputs.SIZES:
        for ranks in (1, 2, 5):
            made = blocks(name, ranks, 7, dtype=dtype, lengths=lengths, seed=3)
            assert [len(block) for block in made] == list(inputs.sizes(lengths, ranks, 7, seed=3))
            assert {block.dtype for block in made} == {np.dtype(dtype)}
            again = inputs.keys(name, ranks - 1, ranks, 7, dtype=dtype, lengths=lengths, seed=3)
            assert again.tobytes() == made[-1].tobytes()


@pytest.mark.parametrize("name", sorted(set(inputs.INPUTS) - {"bit_patterns"}))
def test_numbers_are_finite(name: str) -> None:
    for block in blocks(name, 4, 50, dtype="f8"):
        assert np.isfinite(block).all()


def test_the_bits_are_pinned() -> None:
    # If this fails, every stored measurement of generated input means something else than it says.
    digest = hashlib.sha256()
    for name in sorted(inputs.INPUTS):
        for dtype in ("<i8", "<u2", "<f8"):
            for block in blocks(name, 6, 100, dtype=dtype, seed=42):
                digest.update(block.tobytes())
    assert digest.hexdigest() == "2071f7c70d6516fad6031dae0a54d0d18e76eba2fa820251ba3ee5ff0882502c"


def test_seeds_and_ranks_differ() -> None:
    first = inputs.keys("uniform", 0, 2, 100)
    assert not np.array_equal(first, inputs.keys("uniform", 1, 2, 100))
    assert not np.array_equal(first, inputs.keys("uniform", 0, 2, 100, seed=1))


def test_uniform_fills_the_range_evenly() -> None:
    counts = np.bincount(slices(inputs.keys("uniform", 0, 1, 100_000, dtype="f8"), 10), minlength=10)
    # 10 cells of 10,000 with a standard deviation of 95: five of them is never reached by chance.
    assert abs(counts - 10_000).max() < 475
    signed = inputs.keys("uniform", 0, 1, 10_000, dtype="i1")
    assert (signed.min(), signed.max()) == (-128, 127)


def test_gaussian_has_the_moments_of_the_mean_of_four_uniforms() -> None:
    keys = inputs.keys("gaussian", 0, 1, 100_000, dtype="f8")
    assert keys.mean() == pytest.approx(0.5, abs=5 * 0.1443 / np.sqrt(100_000))
    assert keys.std() == pytest.approx(np.sqrt(1 / 48), rel=0.02)


def test_where_the_slices_go() -> None:
    p, n = 8, 64
    for rank, block in enumerate(blocks("bucket", p, n, dtype="f8")):
        assert slices(block, p).tolist() == np.repeat(np.arange(p), n // p).tolist(), rank
    for rank, block in enumerate(blocks("staggered", p, n, dtype="f8")):
        assert set(slices(block, p)) == {2 * rank + 1 if rank < p // 2 else 2 * rank - p}
    for rank, block in enumerate(blocks("g_group", p, n, dtype="f8", group=2)):
        expected = (rank // 2 * 2 + p // 2 + np.arange(2)) % p
        assert slices(block, p).tolist() == np.repeat(expected, n // 2).tolist()
    mirrored = [set(slices(block, p)) for block in blocks("mirrored", p, n, dtype="f8")]
    assert mirrored == [{0}, {4}, {2}, {6}, {1}, {5}, {3}, {7}]
    for rank, block in enumerate(blocks("all_to_one", p, n, dtype="f8")):
        assert set(slices(block[:-1], p)) == {p - 1 - rank}
        assert slices(block[-1:], p).tolist() == [0]


@pytest.mark.parametrize("ranks", [1, 3, 4, 7])
def test_sorted_and_reversed_are_what_they_say(ranks: int) -> None:
    up = np.concatenate(blocks("sorted", ranks, 20))
    assert (np.diff(up.astype(object)) > 0).all()
    assert np.concatenate(blocks("reversed", ranks, 20)).tolist() == up[::-1].tolist()


def test_duplicates() -> None:
    assert set(np.concatenate(blocks("all_equal", 3, 10)).tolist()) == {1}
    assert set(np.concatenate(blocks("few_unique", 3, 100, values=4)).tolist()) == {0, 1, 2, 3}
    made = np.concatenate(blocks("zipf", 4, 5000, values=10))
    shares = np.bincount(made)[1:] / len(made)
    harmonic = np.array([1 / k for k in range(1, 11)])
    assert shares == pytest.approx(harmonic / harmonic.sum(), abs=0.02)
    levels = [block.tolist() for block in blocks("deterministic_duplicates", 4, 8)]
    assert levels == [[5] * 8, [5] * 8, [4] * 8, [3, 3, 3, 3, 2, 2, 1, 0]]


def test_worst_regular_defeats_the_textbooks_samples() -> None:
    # The textbook: p samples at the ends of equal blocks; the splitters are every p-th, offset by p/2.
    p, n = 16, 320
    made = [np.sort(block) for block in blocks("worst_regular", p, n)]
    tagged = sorted((key, rank, i) for rank, block in enumerate(made) for i, key in enumerate(block.tolist()))
    samples = sorted((block[i], rank, i) for rank, block in enumerate(made) for i in range(19, n, 20))
    splitters = [samples[j * p - p // 2] for j in range(1, p)]
    loads = np.diff([0, *(tagged.index(splitter) + 1 for splitter in splitters), len(tagged)])
    assert loads.max() > 1.8 * n


def test_bit_patterns_hold_every_special_value() -> None:
    keys = inputs.keys("bit_patterns", 0, 1, 100, dtype="f8")
    assert np.isnan(keys[np.signbit(keys)]).any()
    assert np.isnan(keys[~np.signbit(keys)]).any()
    assert np.isinf(keys).any()
    assert set(np.signbit(keys[keys == 0]).tolist()) == {True, False}


def test_everything_says_why() -> None:
    assert all(len(inputs.why(name)) > 30 for name in inputs.INPUTS)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("nothing", 0, 1, 5), ("unknown-name", "'nothing'")),
        (("uniform", 1, 1, 5), ("out-of-range", "0")),
        (("uniform", 0, 1, -5), ("out-of-range", "n_local", "0")),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple, wanted: tuple[str, ...]) -> None:
    with raises_code(DataError, *wanted):
        inputs.keys(*arguments)


def test_bad_options_are_refused() -> None:
    with raises_code(DataError, "wrong-type", "values", "1", "128", "0"):
        inputs.keys("few_unique", 0, 1, 5, values=0)
    with raises_code(DataError, "wrong-arguments"):
        inputs.keys("uniform", 0, 1, 5, values=3)
    with raises_code(DataError, "unknown-name", "'round'"):
        inputs.keys("uniform", 0, 1, 5, lengths="round")
    with raises_code(DataError, "out-of-range", "64"):
        inputs.keys("uniform", 0, 1, 5, dtype="c16")
