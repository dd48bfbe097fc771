"""Predictions, budgets, change points, sums and two parameters, on data with a known answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError, ExpectationError
from labkit.scaling import Term, find_changes, fit_surface, judge_surface, limit, outlook
from tests.support.refusals import raises_code

P = 2.0 ** np.arange(2, 12)


def test_a_budget_is_reached_where_the_curve_says() -> None:
    found = limit(lk.fit(P, 2 + 3 * P), 30_002)
    assert found.at == pytest.approx(10_000, rel=0.01)
    assert "up to about p = 10000" in str(found)
    assert "4.88 times beyond the data" in str(found)


def test_budgets_of_falling_and_hopeless_curves() -> None:
    falling = limit(lk.fit(P, 100 / P), 0.01)
    assert falling.falls
    assert falling.at == pytest.approx(10_000, rel=0.01)
    assert "kept from about" in str(falling)
    assert limit(lk.fit(P, 2 + 3 * P), 1.0).at == 0
    assert "not kept at any p" in str(limit(lk.fit(P, 2 + 3 * P), 1.0))
    assert limit(lk.fit(P, 7 + 0 * P), 8.0).at == np.inf
    assert limit(lk.fit(P, 2 + 3 * P), 100.0).at == pytest.approx(98 / 3, rel=0.02)
    for budget in (0, -1, float("nan"), "much"):
        with raises_code(DataError, "out-of-range"):
            limit(lk.fit(P, P), budget)  # type: ignore[arg-type]


def test_an_outlook_holds_the_truth_and_says_how_far_it_is() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(60):
        y = (5 + 0.1 * P * np.log2(P))[:, None] * (1 + 0.05 * rng.standard_normal((P.size, 5)))
        seen = outlook(lk.fit(P, y), 8 * P[-1])
        assert seen.low <= seen.value <= seen.high
        held += seen.low <= 5 + 0.1 * 8 * P[-1] * np.log2(8 * P[-1]) <= seen.high
    assert held >= 52
    assert "8 times beyond the data" in str(seen)
    with raises_code(DataError, "out-of-range"):
        outlook(lk.fit(P, P), 0)


@pytest.mark.parametrize(
    ("y", "terms"),
    [
        (P - 1, ["1", "p"]),
        (P * (P - 1), ["p", "p^2"]),
        (np.log2(P) - 1, ["1", "log p"]),
        (3 * np.log2(P) + 0.01 * P + 7, ["1", "log p", "p"]),
    ],
)
def test_counts_and_sums_are_exact(y: np.ndarray, terms: list[str]) -> None:
    x, y = (P[1:], y[1:]) if y[0] <= 1 else (P, y)
    model = lk.fit(x, y)
    assert [str(part.term) for part in model.parts] == terms
    assert np.allclose(model.predict(x), y, rtol=1e-9)
    assert lk.judge(x, y, terms[-1]).match == "exact"


def test_counts_that_settle_are_constant_in_the_end() -> None:
    """A ring's allreduce sends 2 (p - 1) / p blocks: O(1), though it nearly doubles."""
    y = 16 * (P / 2 - 1) / (P / 2)
    verdict = lk.judge(P / 2, y, "1")
    assert verdict.match == "exact"
    assert "levels off at 16, of which 100 % is reached" in verdict.reading
    assert verdict.model is not None
    assert np.allclose(verdict.model.predict(P / 2), y)
    assert verdict.model.formula == "16 - 16/p"
    assert lk.judge(P / 2, y, "p").match == "bound"


def test_a_sum_says_where_the_second_term_takes_over() -> None:
    verdict = lk.judge(P, 1e-5 * (300 * np.log2(P) + 0.5 * P), "p")
    assert verdict.match == "exact"
    assert verdict.model is not None
    takeover = verdict.model.takeover
    assert takeover is not None
    crossing = takeover.at
    assert 300 * np.log2(crossing) == pytest.approx(0.5 * crossing, rel=0.02)
    assert "log p dominates up to about p = 7800" in verdict.reading
    assert "p beyond" in verdict.reading


def test_change_points_have_their_places() -> None:
    x = 2.0 ** np.arange(2, 14)
    assert find_changes(x, np.where(x < 256, 1.0, 3 * (x / 256) ** 2)) == [256]
    assert find_changes(x, 3 + x) == []
    assert find_changes(x, np.arctan(x / 100)) == []
    verdict = lk.judge(x, np.where(x < 256, 1.0, 3 * (x / 256) ** 2), "1")
    assert verdict.match == "none"
    assert "changes at p = 256" in verdict.reading


N1, P1 = (v.ravel() for v in np.meshgrid(2.0 ** np.arange(4, 9), 2.0 ** np.arange(1, 6), indexing="ij"))


@pytest.mark.parametrize(
    ("y", "expected", "match"),
    [
        (2 * N1 * np.log2(P1) + 3, "n log p", "exact"),
        (5 * N1 + 7 * P1 + 1, "n + p", "exact"),
        (5 * N1 + 7 * P1 + 1, "n p", "bound"),
        (N1 * P1, "n + p", "none"),
        (N1**2 + 9 * P1, "n + p", "none"),
        (N1 / P1 + 0.001, "n/p", "exact"),
        (N1**1.25 * P1, "n p", "approximate"),
        (2 + 0 * N1, "1", "exact"),
        (2 + 0 * N1, "n", "bound"),
        (2 + 0 * N1, "n/p", "none"),
        (2 + 0 * N1, "1/p", "none"),
    ],
)
def test_two_parameters(y: np.ndarray, expected: str, match: str) -> None:
    verdict = judge_surface(N1, P1, y, expected)
    assert verdict.match == match, str(verdict)
    assert bool(verdict) == (match != "none")


def test_two_parameters_refuse_in_sentences() -> None:
    with raises_code(ExpectationError, "malformed-expression", "'q'"):
        judge_surface(N1, P1, N1, "q")
    with raises_code(DataError, "not-enough-data", "5"):
        fit_surface(N1[:10], P1[:10], N1[:10])
    with raises_code(DataError, "not-finite"):
        fit_surface(N1, P1, 0 * N1)
    rough = judge_surface(N1, P1, 1 + (np.arange(25) % 3), "n")
    assert rough.match == "undecided"
    model = fit_surface(N1, P1, 2 * N1 * P1)
    assert model.summands[0].terms == (Term(0, 1), Term(0, 1))
    assert model.predict(10, 4) == pytest.approx(80)


def test_without_noise_an_interval_holds_the_curves_that_fit_as_well() -> None:
    rng, held, times = np.random.default_rng(2), 0, 8
    at = P[-1] * times
    for _ in range(40):
        weights = rng.uniform(0.1, 1, 3)

        def truth(p: np.ndarray | float, w: np.ndarray = weights) -> np.ndarray | float:
            return w[0] * np.log2(p) / 11 + w[1] * p / 2048 + w[2] * (p / 2048) ** 1.5

        low, high = lk.fit(P, truth(P) * np.exp(0.003 * rng.standard_normal(P.size))).interval(at)
        assert low < high
        held += bool(low <= truth(at) <= high)
    assert held >= 34
    exact = outlook(lk.fit(P, 2 + 3 * P), at)
    assert exact.high == pytest.approx(exact.low)
    assert "between" not in str(exact)


@pytest.mark.parametrize(
    "y", [[0.253, 0.412, 0.626, 0.816, 0.936, 1.0], [0.253, 0.712, 0.426, 0.816, 0.736, 1.3]]
)
def test_a_prediction_without_a_model_says_so(y: list[float]) -> None:
    p = 2.0 ** np.arange(3, 9)
    model = lk.fit(p, y)
    assert model.is_nearest
    for said in (str(outlook(model, 2048)), str(limit(model, 2.0))):
        assert "No model describes the data" in said
    assert not lk.fit(P, 2 + 3 * P).is_nearest


@pytest.mark.parametrize("factor", [0.4, 1.6, 3.1])
def test_a_step_has_its_factor(factor: float) -> None:
    p = 2.0 ** np.arange(4, 12)
    model = lk.fit(p, np.where(p < 128, 1.0, factor) * (3 + 2 * np.log2(p)))
    assert model.since == 128
    assert model.before is not None
    assert float(model.predict(2048)) == pytest.approx(factor * 25, rel=0.01)
    assert float(model.predict(32)) == pytest.approx(13, rel=0.01)
    assert (
        f"{factor:.2g}" in lk.judge(p, np.where(p < 128, 1.0, factor) * (3 + 2 * np.log2(p)), "log p").reading
        or factor < 1
    )


@pytest.mark.parametrize("at", [2, 4, 5])
@pytest.mark.parametrize("factor", [1.3, 2.0, 0.4])
@pytest.mark.parametrize("curve", [lambda p: 10 + 2 * p**0.5, lambda p: 10 + p, lambda p: 10 - 10 / p])
def test_a_step_in_a_curve_is_no_scatter(curve: Callable[[Any], Any], factor: float, at: int) -> None:
    p = 2.0 ** np.arange(2, 9)
    y = curve(p)
    y[at:] *= factor
    model = lk.fit(p, y)
    assert model.since == p[at]
    assert model.error < 0.005


def test_what_still_rises_does_not_level_off_before_its_last_value() -> None:
    """Not even with a jump at the last value, which any curve has that stays below it."""
    p = 2.0 ** np.arange(3, 8)
    model = lk.fit(p, [3.254, 5.031, 6.303, 8.319, 11.166])
    assert not model.term.is_constant


def test_one_point_after_a_step_leaves_growth_open() -> None:
    p, y = [32, 64, 128, 256, 512], [2.268, 3.293, 3.806, 4.064, 8.023]
    assert lk.judge(p, y, "1").match == "undecided"
    assert lk.judge(p, y, "p").match == "bound"


TABLE_8 = {
    "n/p * log(n/p) + p^2 log p": lambda n, p: 1e-9 * n / p * np.log2(n / p) + 1e-7 * p**2 * np.log2(p),
    "n/p * log(n/p) + p * log(n/p)": lambda n, p: 1e-9 * n / p * np.log2(n / p) + 2e-6 * p * np.log2(n / p),
    "n/p * log(n/p) + p * log^2 n": lambda n, p: 1e-9 * n / p * np.log2(n / p) + 1e-7 * p * np.log2(n) ** 2,
    "log^2 p": lambda n, p: 1e-6 * np.log2(p) ** 2 + 0 * n,
    "n log(n) / p + p": lambda n, p: 1e-9 * n * np.log2(n) / p + 1e-6 * p,
}


@pytest.mark.parametrize("expected", TABLE_8)
def test_published_complexities_in_two_parameters(expected: str) -> None:
    n, p = (v.ravel() for v in np.meshgrid(2.0 ** np.arange(14, 19), 2.0 ** np.arange(2, 7), indexing="ij"))
    y = TABLE_8[expected](n, p)
    exact = judge_surface(n, p, y, expected)
    assert exact.match == "exact", str(exact)
    np.testing.assert_allclose(exact.model.predict(n, p), y, rtol=1e-9)
    assert judge_surface(n, p, y + 1e-7 * p**3, expected).match == "none"
    if "p^2" not in expected:
        assert judge_surface(n, p, y + 1e-5 * p**2, expected).match == "none"


def test_two_terms_through_five_values_are_no_alarm() -> None:
    """Of an exchange whose protocol changes; at its end it grows by less than n does."""
    n, y = 10.0 ** np.arange(1, 6), [45e-6, 61e-6, 119e-6, 246e-6, 2175e-6]
    verdict = lk.judge(n, y, "n")
    assert verdict.match == "undecided"
    assert "by a factor of 8.84, and the limit allows 31.6" in verdict.reading
    assert "n^2" not in verdict.reading
    p = 2.0 ** np.arange(4, 9)
    assert lk.judge(p, 10 * p + 0.1 * p**2 * np.log2(p), "p").match == "none"  # that one shows


@pytest.mark.parametrize("factor", ["x", True, 0, -1, float("nan"), float("inf"), 10**400, None, [2]])
def test_a_model_is_multiplied_by_a_factor(factor) -> None:
    model = lk.fit([2, 4, 8, 16, 32], [2.0, 4, 8, 16, 32])
    with raises_code(DataError, "out-of-range", "factor"):
        model.times(factor)
