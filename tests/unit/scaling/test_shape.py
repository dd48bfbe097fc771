"""What is said of the shape of data that no single law describes is true of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit as lk
from labkit.scaling.judgment import describe_data
from labkit.text.html import number

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

P = np.array([4.0, 8, 16, 32, 64, 128, 256, 512])


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([1, 2, 4, 8, 16, 32, 64, 128], "rises by a factor of 128"),
        ([10, 14, 16, 17, 17.4, 17.6, 17.7, 17.7], "rises by 77 % and levels off"),
        ([8, 7, 6, 5, 4, 3, 2, 1], "falls by 88 %, faster towards the end"),
        ([512, 256, 128, 64, 32, 16, 8, 0.1], "falls by a factor of 5,120, faster towards the end"),
        ([100, 101, 100, 99, 100, 101, 100, 100], "stays within 2 %"),
        ([9, 7, 5, 4, 5, 7, 9, 12], "falls up to p = 32 and rises from there on"),
        ([1, 2, 3, 4, 5, 4, 3, 2], "rises up to p = 64 and falls from there on"),
        ([100, 101, 102, 101, 100, 101, 99, 150], "rises by 50 %, faster towards the end"),
        (
            [100, 103, 103.5, 102, 100, 103, 99.9, 150],
            "stays within 4 % up to p = 256 and rises from there on",
        ),
        (
            [300, 200, 100, 103, 104, 100.5, 103.5, 100.5],
            "falls up to p = 16 and stays within 4 % from there on",
        ),
        ([1, 2, 1, 2, 1, 2, 1, 2], "goes up and down"),
    ],
)
def test_shapes_have_their_words(y: list[float], said: str) -> None:
    assert describe_data(P, np.array(y, float), None, "p", 0.02) == said


@given(st.lists(st.floats(1.0, 100.0), min_size=8, max_size=8), st.sampled_from([0.02, 0.1]))
def test_a_stretch_that_falls_or_rises_does_so_by_more_than_the_tolerance(y: list[float], tol: float) -> None:
    values = np.array(y)
    said = describe_data(P, values, None, "p", tol)
    first, _, second = said.partition(" up to p = ")
    if not second:
        return
    place, _, second = second.partition(" and ")
    at = int(np.flatnonzero(float(place) == P)[0])
    for words, part in ((first, values[: at + 1]), (second, values[at:])):
        change = part[-1] / part[0] - 1
        if words.startswith("rises"):
            assert change > tol
        elif words.startswith("falls"):
            assert change < -tol
        else:
            assert np.ptp(part) <= 2 * tol * part.min()


CURVES = {
    "log p": lambda p: 3 + np.log2(p),
    "p": lambda p: 20 + p,
    "1/p": lambda p: 0.001 + 1 / p,
    "1": np.ones_like,
}
X = np.array([4.0, 6, 8, 11, 16, 23, 32, 45, 64])


@pytest.mark.parametrize("law", CURVES)
@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("factor", [0.3, 4.0])
def test_one_value_off_the_curve_is_named(law: str, at: int, factor: float) -> None:
    y = CURVES[law](X)
    y[at] *= factor
    verdict = lk.judge(X, y, law)
    assert verdict.exception == (
        f"the value at p = {X[at]:.0f} is an outlier, {factor:g} times the curve of the others"
    )
    assert verdict.match == "approximate"
    assert verdict.model is not None
    assert verdict.model.is_nearest
    assert str(verdict.model.term) == law


@pytest.mark.parametrize("law", CURVES)
@pytest.mark.parametrize(
    ("values", "off", "said"),
    [
        (2.0 ** np.arange(3, 11), np.arange(8) % 2 == 1, "every second value (p = 16, 64, 256, ...)"),
        (np.arange(4.0, 20), np.arange(4, 20) % 2 == 0, "where p is a multiple of 2, it"),
        (np.arange(3.0, 36), np.arange(3, 36) % 4 == 0, "where p is a multiple of 4, it"),
        (
            np.array([5.0, 8, 12, 16, 24, 32, 48, 64, 96]),
            np.arange(9) % 2 == 1,
            "where p is a power of two, it",
        ),
    ],
)
def test_a_class_of_values_off_the_curve_is_named(law: str, values: Floats, off: Bools, said: str) -> None:
    y = CURVES[law](values) * np.where(off, 1.5, 1.0)
    verdict = lk.judge(values, y, law)
    assert verdict.exception == f"{said} is 1.5 times the curve of the others"
    assert verdict.ok


def test_the_last_value_alone_may_be_the_first_of_another_curve() -> None:
    y = CURVES["log p"](P)
    y[-1] *= 3
    assert lk.judge(P, y, "log p").match == "undecided"


@pytest.mark.parametrize("least", [3, 6, 9])
def test_what_only_fell_is_not_said_to_grow(least: int) -> None:
    """1000/p rounded up stays at 1 in the end, which is no growth and no alarm."""
    p = 2.0 ** np.arange(least, 12)
    for expectation in ("1/p", "log p/p", "p", "1"):
        verdict = lk.judge(p, np.ceil(1000 / p), expectation)
        assert " grows " not in verdict.reading.split(" where")[0].split(";")[0]
        assert verdict.match != "none" or expectation != "1"


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1])
def test_what_turns_is_said_to_turn(share: float) -> None:
    p = 2.0 ** np.arange(1, 13)
    y = 1 / p + share * np.log2(p)
    verdict = lk.judge(p, y, "1/p")
    assert verdict.match == "none"
    assert f"falls up to p = {p[y.argmin()]:.0f} and grows like log p" in verdict.reading


@pytest.mark.parametrize("seed", range(20))
def test_what_falls_hides_no_growth_that_cancels(seed: int) -> None:
    """The share of an expectation that is not seen comes with a curve that falls to 0 or more."""
    rng = np.random.default_rng(seed)
    y = P ** -rng.uniform(0.4, 1) * (1 + 0.01 * rng.standard_normal(P.size))
    hidden = lk.judge(P, y, "p^2").hidden
    assert hidden is None or hidden < 0.35


@given(
    st.integers(5, 10), st.floats(1.13, 5.0), st.booleans(), st.sampled_from([0.0, 0.003]), st.integers(0, 99)
)
def test_two_levels_are_a_jump_and_no_growth(
    n: int, factor: float, drops: bool, noise: float, seed: int
) -> None:
    rng, p = np.random.default_rng(seed), 2.0 ** np.arange(2, 2 + n)
    at = int(rng.integers(2, n))
    times = np.where(np.arange(n) < at, 1.0, 1 / factor if drops else factor)
    times *= np.exp(noise * rng.uniform(-1, 1, n))
    verdict = lk.judge(p, times, "1")
    assert ("drops to" if drops else "jumps by a factor of") in verdict.seen
    assert verdict.seen.endswith(f"at p = {number(p[at])}")
    assert verdict.match == ("undecided" if at == n - 1 and not drops else "approximate")


@pytest.mark.parametrize("digits", [3, 4, 6, 9])
def test_what_could_be_hidden_does_not_hang_on_the_last_digit(digits: int) -> None:
    for law in ("1/p", "p", "log p"):
        y = [float(f"{v:.{digits - 1}e}") for v in 1.567205558e-7 * CURVES[law](X)]
        verdict = lk.judge(X, y, "p^3")
        assert verdict.match == "bound"
        assert verdict.hidden is not None
        assert verdict.hidden < 0.1


@pytest.mark.parametrize("last", [5.0, 137.0, 1e4])
@pytest.mark.parametrize("expectation", ["1", "log p", "sqrt(p)"])
def test_the_nearest_model_is_no_evidence_where_it_leaves_out_what_the_data_do(
    last: float, expectation: str
) -> None:
    found = lk.judge([32, 64, 128, 256, 512], [0.281, 0.325, 0.332, 0.931, last], expectation)
    assert found.match in ("none", "undecided")
