"""Bounds answered by the range, where no law alone or several sums describe the data."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit.scaling import Term
from labkit.scaling.drift import drift_of

P = 2.0 ** np.arange(4, 11)
HALF = Term(0, "1/2")

#: simulated phases of five sorts at 16 ... 1024 ranks, in microseconds
PIVOT = [398.2, 614.8, 867.4, 1079, 1509, 1916, 2363]
WHOLE_ON_TORUS = [1321, 2281, 3547, 6109, 11190, 21630, 45840]
EXCHANGE = [512.1, 911.6, 1685, 3178, 6114, 12100, 23890]
AGREE = [89.33, 112.9, 137.9, 173.1, 212.2, 256.2, 320.5]
AGREE_ON_TORUS = [83.35, 107.2, 134.1, 174.7, 225.9, 288.6, 407.3]
SPLITTERS = [206.8, 282, 486.9, 914.8, 1823, 5503, 20560]


@pytest.mark.parametrize("exponent", [-0.75, -0.25, 0.0, 0.25, 0.75])
def test_a_power_is_its_own_drift(exponent: float) -> None:
    expected = P * np.log2(P)
    drift = drift_of(P, 3 * expected * P**exponent, expected, HALF, 0.02, 0.0)
    assert drift is not None
    for found in (drift.lowest, drift.highest, drift.whole, drift.late, drift.end):
        assert found == pytest.approx(exponent, abs=1e-9)
    assert drift.limit == pytest.approx(0.5)
    assert drift.never_faster == (exponent <= 0)
    assert drift.kind == ("bound" if exponent < -0.5 else "none" if exponent > 0.5 else "within")


def test_a_change_point_begins_the_later_part() -> None:
    y = np.where(P < 128, P**2, 128.0**2)
    drift = drift_of(P, y, np.ones(7), HALF, 0.02, 0.0, start=3)
    assert drift is not None
    assert drift.late == pytest.approx(0.0, abs=1e-9)


def test_there_is_no_drift_from_what_has_no_value() -> None:
    assert drift_of(P, P, np.zeros(7), HALF, 0.02, 0.0) is None


@pytest.mark.parametrize(
    ("y", "expected", "match", "words"),
    [
        (PIVOT, "log^2 p", "bound", "its ratio to log^2 p goes as p^-0.13 to p^0.10, within the limit"),
        (WHOLE_ON_TORUS, "p", "bound", "its ratio to p goes as p^-0.36 to p^0.08, within the limit sqrt(p)"),
        (SPLITTERS, "p^2 log p", "bound", "at no step is O(p^2 log p) exceeded"),
        (SPLITTERS, "log p", "none", "beyond the limit sqrt(p)"),
        (EXCHANGE, "p", "approximate", "in this range: from value to value, its ratio to p goes as p^-0.17"),
        (AGREE, "log p", "approximate", "within the limit sqrt(p). Several sums describe the data"),
        (AGREE_ON_TORUS, "log p", "undecided", "leads only beyond the measurements"),
        (WHOLE_ON_TORUS, "1", "none", "it rises by a factor of 34.7"),
    ],
)
def test_phases_without_a_law_of_their_own(y: list[float], expected: str, match: str, words: str) -> None:
    verdict = lk.judge(P, y, expected)
    assert verdict.match == match
    assert words in verdict.reading
    if match == "approximate":
        assert verdict.model is not None
        assert verdict.model.term in {m.term for m in verdict.plausible}
        assert verdict.model.error < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.03, 0.06])
def test_single_measurements_that_scatter_seldom_hide_an_alarm(noise: float) -> None:
    rng = np.random.default_rng(3)
    matches = {"right": [], "low": [], "high": []}
    for _ in range(60):
        y = (5 + P + P**1.5 / 8) * np.exp(noise * rng.standard_normal(P.size))
        for name, expected in (("right", "p^1.5"), ("low", "sqrt(p)"), ("high", "p^2 log p")):
            matches[name].append(lk.judge(P, y, expected).match)
    assert "none" not in matches["right"]
    assert "none" not in matches["high"]
    assert sum(m in ("bound", "approximate", "exact") for m in matches["low"]) <= 3
    assert matches["low"].count("none") >= 20
