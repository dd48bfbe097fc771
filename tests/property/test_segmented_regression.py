"""Segmented regression finds the breaks and lines that made the data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from labkit.calibration.experiments import grid
from labkit.calibration.fit import MIN_POINTS, fit_pieces


@st.composite
def curves(draw):
    """Breaks a factor of 8 apart at least, and lines that differ by a third at least around each."""
    n_breaks = draw(st.integers(0, 3))
    breaks, low = [], 4.0
    for _ in range(n_breaks):
        low *= 8 * draw(st.floats(1.0, 6.0))
        breaks.append(float(int(low)))
    lines, level = [], draw(st.floats(1e-6, 1e-4))
    for begin in [1.0, *breaks]:
        share = draw(st.floats(0.2, 0.8))  # of the value at the piece's end that the slope makes
        end = begin * 8
        level *= draw(st.floats(1.35, 2.5))
        lines.append((level * (1 - share), level * share / end))
        level += lines[-1][1] * end
    return breaks, lines


def values(x, breaks, lines):
    index = np.searchsorted(np.array(breaks), x, side="left")
    table = np.array(lines)
    return table[index, 0] + table[index, 1] * x


def is_told_apart(breaks, lines):
    """Whether the value jumps by a quarter at least at every break."""
    x = np.array(breaks)
    before = np.array([a + b * t for (a, b), t in zip(lines, breaks, strict=False)])
    after = np.array([a + b * t for (a, b), t in zip(lines[1:], breaks, strict=True)])
    return bool(np.all(np.abs(after / before - 1) > 0.25)) if len(x) else True


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(curves(), st.integers(0, 10_000))
def test_without_noise_every_bracket_holds_its_break_and_every_line_is_exact(curve, seed):
    breaks, lines = curve
    assume(is_told_apart(breaks, lines))
    x = np.array(grid(1, 1e6, 160, np.random.default_rng(seed)), float)
    fit = fit_pieces(x, values(x, breaks, lines))
    populated = np.histogram(x, [0, *breaks, 1e9])[0]
    assume(min(populated) > MIN_POINTS)
    assert len(fit.pieces) == len(lines)
    for (low, high), wanted in zip(fit.breakpoints, breaks, strict=True):
        assert low <= wanted < high
    for piece, (a, b) in zip(fit.pieces, lines, strict=True):
        assert piece.intercept == pytest.approx(a, rel=1e-6)
        assert piece.slope == pytest.approx(b, rel=1e-6)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(curves(), st.integers(0, 10_000), st.sampled_from([0.01, 0.02, 0.03]))
def test_under_noise_the_curve_is_met_within_the_noise(curve, seed, noise):
    """Away from the breaks the fitted curve is within two standard deviations; no piece is missed."""
    breaks, lines = curve
    rng = np.random.default_rng(seed)
    x = np.array(grid(1, 1e6, 160, rng), float)
    assume(is_told_apart(breaks, lines) and min(np.histogram(x, [0, *breaks, 1e9])[0]) >= 10)
    truth = values(x, breaks, lines)
    fit = fit_pieces(x, truth * (1 + noise * rng.standard_normal(len(x))))
    assert len(fit.pieces) >= len(lines)
    for wanted in breaks:  # at most two points are on the wrong side
        place = np.searchsorted(x, wanted, side="right")
        near = (x[max(place - 3, 0)], x[min(place + 2, len(x) - 1)])
        assert any(low >= near[0] and high <= near[1] for low, high in fit.breakpoints)
    is_away = np.ones(len(x), bool)
    for wanted in breaks:
        is_away &= np.abs(np.arange(len(x)) - np.searchsorted(x, wanted)) > 3
    error = np.abs(fit(x) / truth - 1)[is_away]
    assert np.median(error) < noise
    assert np.quantile(error, 0.95) < 2 * noise


@pytest.mark.slow
def test_noise_alone_is_rarely_cut():
    """A straight line in noise of 5 %, a hundred times: at most five are cut."""
    cut = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = np.array(grid(1, 1e6, 100, rng), float)
        y = (1e-5 + 1e-8 * x) * (1 + 0.05 * rng.standard_normal(len(x)))
        cut += len(fit_pieces(x, y).pieces) > 1
    assert cut <= 5


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(2.0, 50.0))
def test_a_few_wild_points_change_nothing(seed, factor):
    rng = np.random.default_rng(seed)
    x = np.array(grid(1, 1e6, 100, rng), float)
    truth = np.where(x <= 3000, 2e-5 + 4e-9 * x, 8e-5 + 2e-9 * x)
    noisy = truth * (1 + 0.01 * rng.standard_normal(len(x)))
    wild = rng.choice(len(x), 4, replace=False)
    noisy[wild] *= factor
    fit = fit_pieces(x, noisy)
    error = np.abs(fit(x) / truth - 1)
    assert np.quantile(error, 0.85) < 0.03


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(1e-9, 1e9))
def test_the_unit_of_time_does_not_matter(seed, unit):
    rng = np.random.default_rng(seed)
    x = np.array(grid(1, 1e6, 60, rng), float)
    y = np.where(x <= 3000, 2e-5 + 4e-9 * x, 8e-5 + 2e-9 * x) * (1 + 0.01 * rng.standard_normal(len(x)))
    one, other = fit_pieces(x, y), fit_pieces(x, y * unit)
    assert one.breakpoints == other.breakpoints
    np.testing.assert_allclose(other(x), unit * one(x), rtol=1e-9)


def test_the_division_is_the_best_of_all():
    """Against every division into two pieces, tried one by one."""
    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(1, 100, 24))
    y = np.where(x < 40, 5 + x, 90 + 0.2 * x) * (1 + 0.02 * rng.standard_normal(24))

    def rss(part):
        a = np.stack([np.ones(part.stop - part.start), x[part]], 1) / y[part, None]
        return float(nnls(a, np.ones(len(a)))[1] ** 2)

    costs = {k: rss(slice(0, k)) + rss(slice(k, 24)) for k in range(MIN_POINTS, 24 - MIN_POINTS + 1)}
    best = min(costs, key=costs.get)
    fit = fit_pieces(x, y, max_pieces=2)
    assert fit.breakpoints == [(x[best - 1], x[best])]
