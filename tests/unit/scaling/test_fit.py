"""Fits against independent least squares, and verdicts on data with a known answer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError, ExpectationError
from labkit.scaling import WIDE, Term, fit_many, read_samples, space_for
from labkit.scaling.leastsquares import basis_values, fit_all
from labkit.scaling.posterior import lack_of_fit
from tests.support.refusals import raises_code

P = np.array([16.0, 32, 64, 128, 256, 512])


def brute_force(f: np.ndarray, y: np.ndarray) -> tuple[float, float, float, float]:
    """Fit c + a f by numpy's lstsq, leaving each point out by really leaving it out.

    Returns c, a, the sum of squared relative errors and PRESS; the case c < 0 is held at c = 0.
    """

    def solve(rows: np.ndarray, hold: bool) -> tuple[float, float]:
        design = np.stack([np.ones_like(f), f], axis=1)[rows] / y[rows, None]
        if hold:
            a = np.linalg.lstsq(design[:, 1:], np.ones(rows.sum()), rcond=None)[0]
            return 0.0, float(a[0])
        c, a = np.linalg.lstsq(design, np.ones(rows.sum()), rcond=None)[0]
        return float(c), float(a)

    every = np.ones(y.size, dtype=bool)
    c, a = solve(every, False)
    hold = c < 0
    if hold:
        c, a = solve(every, True)
    press = 0.0
    for i in range(y.size):
        rest = every.copy()
        rest[i] = False
        ci, ai = solve(rest, hold)
        press += ((y[i] - ci - ai * f[i]) / y[i]) ** 2
    return c, a, float((((y - c - a * f) / y) ** 2).sum()), press


@pytest.mark.parametrize("seed", range(6))
def test_the_closed_form_equals_lstsq_and_real_leave_one_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = WIDE[rng.integers(1, len(WIDE))]
    y = (rng.uniform(0, 50) + truth(P)) * np.exp(0.05 * rng.standard_normal(P.size))
    terms = [t for t in WIDE if not t.is_constant]
    values, scales = basis_values(terms, P)
    fits = fit_all(values, y[None])
    compared = 0
    for k, term in enumerate(terms):
        c, a, sse, press = brute_force(values[k], y)
        if a <= 0:
            assert fits.press[0, k] == np.inf
            continue
        compared += 1
        assert np.isclose(fits.constant[0, k], c, rtol=1e-7, atol=1e-9 * y.min()), term
        assert np.isclose(fits.coefficient[0, k], a, rtol=1e-7), term
        assert np.isclose(fits.sse[0, k], sse, rtol=1e-7), term
        assert np.isclose(fits.press[0, k], press, rtol=1e-6), term
    assert compared > 10
    assert np.allclose(np.exp2(scales)[:, None] * values, [t(P) for t in terms])


def test_the_constant_is_the_weighted_mean() -> None:
    y = np.array([5.0, 6, 7, 5, 6, 7])
    values, _ = basis_values([Term()], P)
    fits = fit_all(values, y[None])
    assert np.isclose(fits.constant[0, 0], (1 / y).sum() / (1 / y**2).sum())
    assert fits.coefficient[0, 0] == 0


def test_the_lack_of_fit_test_equals_the_textbook() -> None:
    from scipy import stats

    rng = np.random.default_rng(7)
    y = (3 + 0.5 * P * np.log2(P))[:, None] * np.exp(0.04 * rng.standard_normal((P.size, 6)))
    summary = read_samples(P, y).summary("mean")
    values, _ = basis_values(space_for("wide", None), P)
    fits = fit_all(values, summary.points[None], summary.counts, is_noisy=True)
    p_values = lack_of_fit(summary, fits.sse[0], fits.free[0])
    mean = y.mean(axis=1)
    pure = (((y - mean[:, None]) / mean[:, None]) ** 2).sum()
    compared = 0
    for k, f in enumerate(values):
        c, a, _, _ = brute_force(f, mean)
        if np.ptp(f) == 0 or a <= 0:
            continue
        near = c + a * f  # errors relative to the curve, fitted again
        near = np.clip(near, mean / 2, 2 * mean)
        design = np.stack([np.ones_like(f), f], axis=1) / near[:, None]
        numbers = np.linalg.lstsq(design, mean / near, rcond=None)[0]
        if numbers[0] < 0:
            design = design[:, 1:]
            numbers = np.linalg.lstsq(design, mean / near, rcond=None)[0]
        error = mean / near - design @ numbers
        ratio = (6 * error @ error / (P.size - numbers.size)) / (pure / (P.size * 5))
        expected = stats.f.sf(ratio, P.size - numbers.size, P.size * 5)
        assert p_values[k] == pytest.approx(expected, rel=1e-6, abs=1e-12)
        compared += 1
    assert compared > 20


def test_a_batch_gives_what_single_fits_give() -> None:
    rng = np.random.default_rng(3)
    terms = [WIDE[i] for i in rng.integers(0, len(WIDE), 40)]
    ys = np.array([(2 + t(P)) * np.exp(0.03 * rng.standard_normal(P.size)) for t in terms])
    ys[::7] = ys[::7, ::-1]  # some that fall
    for model, y in zip(fit_many(P, ys), ys, strict=True):
        alone = lk.fit(P, y)
        assert model.term == alone.term
        assert model.formula == alone.formula


def test_a_batch_of_repeated_measurements_gives_what_single_fits_give() -> None:
    rng = np.random.default_rng(4)
    terms = [WIDE[i] for i in rng.integers(0, len(WIDE), 60)]
    curves = np.array([2 + t(P) for t in terms])[..., None]
    ys = curves * (1 + np.repeat([0.02, 0.1], 30)[:, None, None] * rng.standard_normal((60, P.size, 5)))
    ys[::9, 2, 3] *= 5  # outliers: the quartile stands for these
    ys[::7] = ys[::7, ::-1]  # some that fall
    compared = 0
    for model, y in zip(fit_many(P, ys), ys, strict=True):
        alone = lk.fit(P, y, space="wide")
        if alone.others or alone.constant < 0 or alone.before:  # looked for in single fits only
            continue
        compared += 1
        assert model.term == alone.term
        assert model.formula == alone.formula
        assert model.cross_validation == pytest.approx(alone.cross_validation, rel=1e-9)
        np.testing.assert_allclose(model.interval(4 * P), alone.interval(4 * P), rtol=1e-6)
    assert compared > 50


@pytest.mark.parametrize(
    ("expectation", "truth", "match", "divergence"),
    [
        ("p log2(p)", lambda p: 3 + 2 * p * np.log2(p), "exact", "1"),
        ("p", lambda p: 3 + 2 * p * np.log2(p), "approximate", "log p"),
        ("p log p", lambda p: 1 + p, "approximate", "1/log p"),
        ("log p", lambda p: 3 + 2 * p**1.75, "none", "p^1.75/log p"),
        ("p^2", lambda p: 9 + p, "bound", "1/p"),
        ("1", lambda p: 7 + 0 * p, "exact", "1"),
        ("log p", lambda p: 7 + 0 * p, "approximate", "1/log p"),
        ("p", lambda p: 7 + 0 * p, "bound", "1/p"),
        ("1/p", lambda p: 1e-3 + 5 / p, "exact", "1"),
        ("1/p", lambda p: 5 / np.sqrt(p), "approximate", "sqrt(p)"),
        ("1/p", lambda p: 5 + 0 * p, "none", "p"),
        ("1/p^2", lambda p: 5 / p, "none", "p"),
        ("1/sqrt(p)", lambda p: 5 / p**2, "bound", "p^-1.5"),
        ("1", lambda p: 5 / p, "bound", "1/p"),
    ],
)
def test_verdicts_on_exact_data(expectation: str, truth: object, match: str, divergence: str) -> None:
    verdict = lk.judge(P, truth(P), expectation)  # type: ignore[operator]
    assert (verdict.match, str(verdict.divergence)) == (match, divergence), str(verdict)
    assert bool(verdict) == (match != "none")


def test_exponentials() -> None:
    k = np.arange(3.0, 17)
    assert lk.judge(k, 4e-6 * k**3 * 2**k, "k^3 2^k").match == "exact"
    assert lk.judge(k, 4e-6 * k**4 * 2**k, "k^3 2^k").match == "approximate"
    assert lk.judge(k, 2.0 ** (2 * k), "k 2^k").match == "none"
    steep = np.array([10.0, 200, 400, 600, 900])
    assert lk.judge(steep, 2.0**steep, "2^p").match == "exact"


def test_the_local_work_of_strong_scaling_keeps_its_logarithm() -> None:
    n = 1e6
    y = 1e-4 + 1e-8 * n / P * np.log2(n / P)
    known = lk.judge(P, y, "n/p * log2(n/p)", given={"n": n})
    assert known.match == "exact"
    assert known.model is not None
    assert np.allclose(known.model.predict(P), y)
    untold = lk.judge(P, y, "n/p * log2(n/p)")
    assert untold.match == "exact"
    assert any("not given and is fitted" in note for note in untold.notes)


def test_undecided_below_five_values_and_a_fit_is_refused() -> None:
    verdict = lk.judge(P[:4], P[:4], "p")
    assert verdict.match == "undecided"
    assert verdict.model is None
    assert "at least 5" in str(verdict)
    assert not verdict
    with raises_code(DataError, "not-enough-data", "5", "4"):
        lk.fit(P[:4], P[:4])
    with raises_code(DataError, "not-enough-data", "5"):
        lk.fit(np.repeat(P[:4], 9), np.arange(1.0, 37))


def test_undecided_when_the_measurements_are_not_valid() -> None:
    verdict = lk.judge(P, 3 * P, "p", is_valid=False)
    assert verdict.match == "undecided"
    assert verdict.model is not None
    assert verdict.model.term == (0, 1, 0)
    assert "not valid" in verdict.reading


def test_undecided_when_no_term_describes_the_data() -> None:
    verdict = lk.judge(P, [1.0, 9, 4, 30, 2, 9], "p")
    assert verdict.match == "undecided"
    assert "goes up and down" in verdict.reading


def test_undecided_when_the_data_do_not_reject_what_the_model_contradicts() -> None:
    rng = np.random.default_rng(11)
    seen = set()
    for _ in range(200):
        y = (60 + P)[:, None] * np.exp(0.3 * rng.standard_normal((P.size, 4)))
        verdict = lk.judge(P, y, "log p")
        assert verdict.model is not None
        beyond = abs(verdict.model.term.polynomial) > 0.5
        if beyond and verdict.is_plausible:
            assert verdict.match == "undecided"
        seen.add(verdict.match)
    assert "undecided" in seen
    assert "none" in seen


def test_flat_deterministic_data_do_not_make_growing_terms_plausible() -> None:
    verdict = lk.judge(P, np.full(P.size, 7.0), "1")
    assert [str(m.term) for m in verdict.plausible] == ["1"]


def test_firm_means_that_every_plausible_term_agrees() -> None:
    y = 3 + 2 * P
    assert lk.judge(P, y, "p").is_firm
    noise = np.random.default_rng(3).standard_normal((P.size, 3))
    loose = lk.judge(P, y[:, None] * (1 + 0.2 * noise), "p")
    assert len(loose.plausible) > 3
    assert not loose.is_firm


def test_own_and_strict_limits_are_named() -> None:
    y = P * np.log2(P)
    assert lk.judge(P, y, "p", deviation="log p").match == "approximate"
    tight = lk.judge(P, y, "p", deviation="log^0.5 p")
    assert tight.match == "none"
    assert "log^0.5 p (the limit given)" in str(tight)
    assert lk.judge(P, P**3, "p^2", deviation="strict").match == "approximate"
    assert lk.judge(P, P**3, "p^2").match == "none"


@pytest.mark.parametrize(
    ("x", "y", "wanted"),
    [
        ([1, 2, 3], [1, 2], ("count-mismatch",)),
        ([], [], ("no-data",)),
        ([1, 2, 3, 4, 5], [1, 2, 0, 4, 5], ("not-finite", "3", "5")),
        ([1, 2, 3, 4, 5], [1, 2, float("nan"), 4, 5], ("not-finite", "3", "5")),
        ([-1, 2, 3, 4, 5], [1, 2, 3, 4, 5], ("not-finite",)),
        (["a", 2], [1, 2], ("wrong-type",)),
        ([1, 2, 3, 4, 5], [1j, 2, 3, 4, 5], ("wrong-type",)),
        ([1, 2, 3, 4, 5], [5e-324, 2, 3, 4, 5], ("not-finite", "1", "5")),
    ],
)
def test_refuses_unusable_data(x: list[object], y: list[object], wanted: tuple[str, ...]) -> None:
    with raises_code(DataError, *wanted):
        lk.fit(x, y)


def test_refuses_unknown_names() -> None:
    with raises_code(DataError, "unknown-name", "'best'"):
        lk.fit(P, P, aggregate="best")
    for space in ("small", 5, [1, 2], [("a", 2)]):
        with raises_code(ExpectationError, "malformed-expression"):
            lk.fit(P, P, space=space)  # type: ignore[arg-type]
    assert lk.fit(P, P, space=[(0, 1, 0), (0, 2, 0)]).term == (0, 1, 0)  # type: ignore[list-item]


def test_aggregates_of_repetitions() -> None:
    y = P[:, None] * np.array([1.0, 1.1, 1.2, 9.0, 1.05])
    for how, factor in [("min", 1.0), ("quartile", 1.05), ("median", 1.1), ("mean", 2.67)]:
        assert np.isclose(lk.fit(P, y, aggregate=how).coefficient, factor)


def test_adjusted_r2_and_display() -> None:
    rng = np.random.default_rng(5)
    y = (10 + P) * (1 + 0.02 * rng.standard_normal(P.size))
    model = lk.fit(P, y, space=[Term(0, 1)])
    w = 1 / y**2
    line = model.predict(P)
    r2 = 1 - ((w * (y - line) ** 2).sum() / 4) / ((w * (y - (w * y).sum() / w.sum()) ** 2).sum() / 5)
    assert model.r2_adjusted == pytest.approx(r2)
    assert "O(p)" in repr(model)
    assert "<table" in model._repr_html_()
    verdict = lk.judge(P, y, "p log p", metric="makespan_s", unit="s")
    assert str(verdict) == repr(verdict)
    assert "makespan_s" in verdict._repr_html_()
    clean = lk.judge(P, 10 + P, "p").to_dict()
    assert clean["term"] == {"exponential": 0.0, "polynomial": 1.0, "logarithmic": 0.0}
    constant = lk.fit(P, [2.0] * 6)
    assert constant.r2_adjusted is None
    assert "adjusted R2 -" in repr(constant)


def test_no_warning_escapes_on_extreme_data() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (P * 1e-300, P * 1e290, P**2 * 1e-20, 2.0 ** (P * 2 - 1000)):
            lk.judge(P, y, "p")
        lk.judge([1, 2, 4, 8, 16], [1, 2, 4, 8, 16], "p/log p")
        lk.judge([0.1, 0.2, 0.4, 0.8, 0.9], [1, 2, 4, 8, 9], "p log p")


def test_what_falls_to_a_level_does_not_fall_as_expected() -> None:
    """Strong scaling that ends: exactly as expected, approximately, then not at all, one step at a time."""
    seen, p = [], np.array([8.0, 16, 32, 64, 128])
    for level in np.geomspace(1e-4, 10, 60):
        falls, flat = (lk.judge(p, level + 8 / p, e) for e in ("1/p", "1"))
        share = level / (level + 8 / 128)
        wanted = (
            ("exact", "bound") if share < 0.5 else ("approximate",) * 2 if share < 0.9 else ("none", "exact")
        )
        assert (falls.match, flat.match) == wanted
        seen.append(falls.match)
    assert {one: seen.count(one) > 3 for one in seen} == {"exact": True, "approximate": True, "none": True}
    # a jump down to a second level
    times = [0.4598, 0.3211, 0.3015, 0.2106, 0.1984]
    assert lk.judge(p, times, "1/p").match == "none"


def test_scattered_single_measurements_of_a_line_raise_no_alarm() -> None:
    """A sum that follows the scatter of five values measured once is not their growth."""
    rng, p, matches = np.random.default_rng(5), 16 * 2.0 ** np.arange(5), []
    for _ in range(40):
        times = 1e-3 * p * np.exp(0.08 * rng.standard_normal(5))
        verdict = lk.judge(p, times, "p")
        assert verdict.model is not None
        off = float(np.abs(verdict.model.predict(p) / times - 1).max())
        assert verdict.model.is_nearest or off <= 0.05 or f"up to {100 * off:.2g} % off" in verdict.reading
        matches.append(verdict.match)
    assert matches.count("none") + matches.count("undecided") <= 2
    assert matches.count("exact") >= 15


def test_the_late_growth_of_a_bent_series_is_not_called_slower() -> None:
    """A constant far below the data must not turn doublings by more than 2 into growth slower than p."""
    times = np.array([37, 64, 174, 385, 840]) * 1e-3
    verdict = lk.judge(2.0 ** np.arange(10, 15), times, "p")
    assert verdict.model is not None
    assert verdict.model.term >= Term(0, 1)


def test_smooth_bends_are_not_taken_for_scatter() -> None:
    p = 2.0 ** np.arange(3, 9)
    assert lk.fit(p, [0.253, 0.412, 0.626, 0.816, 0.936, 1.0]).is_nearest


@pytest.mark.parametrize("values", [2.0 ** np.arange(2, 8), 10.0 * np.arange(2, 10)])
def test_a_large_constant_hides_no_steep_growth(values: np.ndarray) -> None:
    for share in np.geomspace(1e-6, 3, 14):
        y = share * values[-1] ** 3 + values**3
        assert lk.fit(values, y).term == (0, 3, 0)
        assert lk.judge(values, y, "p^2").match == "none"


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
def test_scatter_hides_no_fall(noise: float) -> None:
    """Strong scaling measured once: 1/p is seen through the scatter, and what falls too slowly, too."""
    rng, p = np.random.default_rng(7), 2.0 ** np.arange(0, 8)
    verdicts = [lk.judge(p, np.exp(noise * rng.standard_normal(8)) / p, "1/p") for _ in range(25)]
    assert sum(v.match == "exact" for v in verdicts) >= 15
    assert sum(v.model is not None and v.model.is_nearest for v in verdicts) <= 6
    slow = [lk.judge(p, np.exp(noise * rng.standard_normal(8)) / p**0.25, "1/p") for _ in range(25)]
    assert sum(v.ok for v in slow) <= 1


def test_the_last_value_alone_raises_no_alarm() -> None:
    """One slow run at the end of scattered measurements is a doubt; further ones like it are growth."""
    rng = np.random.default_rng(8)
    p = 2.0 ** np.arange(2, 12)
    times = p * np.exp(0.03 * rng.standard_normal(p.size))
    slow = np.where(np.arange(p.size) == p.size - 1, 4 * times, times)
    assert lk.judge(p, slow, "p").match in ("undecided", "approximate")
    steep = np.where(p > 256, times * (p / 256) ** 2, times)
    assert not lk.judge(p, steep, "p").ok
    # the end of a fall to a level is no value alone
    level = [1.1, 0.6, 0.35, 0.225, 0.163, 0.131, 0.116, 0.13]
    assert lk.judge(p[:8], level, "1/p").match == "none"


@pytest.mark.parametrize("power", ["1/4", "1/3", "2/3", "2"])
def test_a_rare_growth_that_is_expected_raises_no_alarm(power: str) -> None:
    rng, p = np.random.default_rng(11), 2.0 ** np.arange(1, 7)
    f = Term(0, power, 2)(p)
    scattered = [(f[0] + f) * np.exp(0.1 * rng.standard_normal(p.size)) for _ in range(20)]
    matches = [lk.judge(p, y, f"p^({power}) log^2 p").match for y in scattered]
    assert matches.count("none") <= 1


@pytest.mark.parametrize("values", [[True] * 5, [1e300] * 5, [1e-320] * 5])
def test_what_is_no_amount_is_named(values) -> None:
    with pytest.raises(DataError) as caught:
        lk.fit([2, 4, 8, 16, 32], values)
    said = str(caught.value)
    assert ("True and False" in said) if values[0] is True else ("must be above" in said)
