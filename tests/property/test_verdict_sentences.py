"""Every number in a verdict's sentence is recomputed: from the raw values, or from the model's summands."""

from __future__ import annotations

import re
from collections import Counter
from types import ModuleType

import numpy as np
import pytest

from labkit.scaling import Model, Term, Verdict, judge
from labkit.scaling.search import family
from tests.property.test_verdict_stability import stability

__all__ = ["stability"]

NUMBER = r"([\d.,]*\d(?:e[+-]?\d+)?)"


def value(text: str) -> float:
    return float(text.replace(",", ""))


def summands(model: Model, x: float) -> dict[str, float]:
    """Return the value of every summand at x by the text of its term."""
    return {
        "the constant part" if p.term.is_constant else str(p.term): float(
            p.scaled if p.term.is_constant else p(x)
        )
        for p in model.parts
    }


def check(verdict: Verdict, found: Counter[str]) -> None:
    said, model = verdict.reading, verdict.model
    assert model is not None
    assert verdict.samples is not None
    x, y = model.x, model.y
    curve = model.predict(x)
    if m := re.search(rf"; (\S.*?) dominates up to about p = {NUMBER}, (\S.*?) beyond", said):
        found["dominates up to"] += 1
        at = value(m[2])
        for place, largest in ((at / 1.1, m[1]), (at * 1.1, m[3])):  # two digits are printed
            parts = summands(model, place)
            assert max(parts, key=lambda k: parts[k]) == largest
    if m := re.search(r"; (\S.*?) dominates in the whole range", said):
        found["dominates in the whole range"] += 1
        for place in x:
            parts = summands(model, float(place))
            assert max(parts, key=lambda k: parts[k]) == m[1]
    if m := re.search(rf"levels off at {NUMBER}, of which (\d+) % is reached at p = {NUMBER}", said):
        found["levels off"] += 1
        assert value(m[1]) == pytest.approx(model.predict(1e200), rel=0.01)
        assert value(m[3]) == x[-1]
        assert float(m[2]) / 100 == pytest.approx(curve[-1] / model.predict(1e200), abs=0.006)
        assert abs(curve[-1] / y[-1] - 1) <= model.error + 1e-9
    if m := re.search(rf"is constant \(within {NUMBER} %\)", said):
        found["is constant"] += 1
        assert np.abs(y.mean() / y - 1).max() <= 2.2 * value(m[1]) / 100
        assert np.abs(curve / y - 1).max() <= value(m[1]) / 100
    if m := re.search(rf"jumps by a factor of {NUMBER} at p = {NUMBER}", said):
        found["jumps"] += 1
        at = int(np.searchsorted(x, value(m[2])))
        assert model.before is not None
        rise = y[at] / y[at - 1] / (model.before.predict(x[at]) / model.before.predict(x[at - 1]))
        assert value(m[1]) == pytest.approx(rise, rel=0.05 + 2 * model.error)
    if m := re.search(rf"misses a point by {NUMBER} %", said):
        found["misses"] += 1
        assert value(m[1]) / 100 == pytest.approx(np.abs(curve / y - 1).max(), rel=0.06)
        assert value(m[1]) / 100 > verdict.tolerance
    if m := re.search(r"it (rises|falls) by (a factor of )?([\d.,]+)", said):
        found["rises or falls"] += 1
        ratio = y[-1] / y[0] if m[2] else abs(y[-1] / y[0] - 1)
        assert value(m[3]) == pytest.approx(ratio if m[2] else 100 * ratio, rel=0.01, abs=0.5)
        assert (y[-1] > y[0]) == (m[1] == "rises")
    if m := re.search(r"(faster|slower) than (\S.*?) by (\S.*?)(?:[,;] |\.$)", said):
        found["faster or slower"] += 1
        e, by = verdict.expectation.term, verdict.divergence
        assert by is not None
        assert m[2] == str(e)
        assert m[3] in (str(by), str(by.power(-1)))
    if m := re.search(rf"at most {NUMBER} % of the value", said) or re.search(
        rf"up to {NUMBER} % of the", said
    ):
        found["hidden"] += 1
        share = value(m[1]) / 100
        assert 0 < share <= 1
        # c + a f + nearly as large a share describes the points
        grown = np.exp2(verdict.expectation.log2(x) - verdict.expectation.log2(x[-1:]))
        rest = y - 0.9 * share * y[-1] * grown
        best = np.inf
        for candidate in (*(p.term for p in model.parts), *verdict_space(x)):
            columns = np.stack([np.ones(x.size), candidate(x) / candidate(x).max()], axis=1) / y[:, None]
            numbers = np.linalg.lstsq(columns, rest / y, rcond=None)[0]
            best = min(best, float(np.abs(columns @ numbers - rest / y).max()))
        assert best <= max(verdict.tolerance, 3 * model.error) + 1e-9


def verdict_space(x: np.ndarray) -> list[Term]:
    """Return every term that may be the rest of the data."""
    return [t for t in family(falls=True) if np.isfinite(t.log2(x)).all() and not t.is_constant]


@pytest.mark.parametrize("seed", [31, pytest.param(32, marks=pytest.mark.slow)])
def test_every_number_in_a_sentence_is_true(stability: ModuleType, seed: int) -> None:
    rng, found = np.random.default_rng(seed), Counter[str]()
    for x, y in stability.series(140 if seed == 31 else 1400, seed):
        for expectation in rng.choice(stability.EXPECTATIONS[:10], 2, replace=False):
            check(judge(x, y, str(expectation)), found)
    kinds = {"dominates up to", "levels off", "is constant", "jumps", "misses", "rises or falls"}
    assert set(found) - {"dominates in the whole range"} == kinds | {"faster or slower", "hidden"}
