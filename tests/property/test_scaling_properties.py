"""Properties that every fit and verdict has, whatever the data."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.scaling import PAPER, WIDE, Model, Term, fit, judge, match, ruler, space_for
from labkit.scaling.search import family

RANKS = np.array([4.0, 8, 16, 32, 64, 128, 256])
TERMS = st.sampled_from(WIDE)
LIMITS = st.sampled_from([t for t in WIDE if t > (0, 0, 0)])
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
EXPONENTS = st.fractions(min_value=-3, max_value=3, max_denominator=6)
ANY_TERM = st.builds(Term, EXPONENTS, EXPONENTS, EXPONENTS)


@st.composite
def noisy(draw: st.DrawFn) -> np.ndarray:
    """Return measurements (7, 5) of a random term with up to 10 % noise."""
    term = draw(TERMS)
    seed = draw(st.integers(0, 2**32 - 1))
    level = draw(st.sampled_from([0.0, 0.01, 0.1]))
    rng = np.random.default_rng(seed)
    curve = rng.uniform(0, 10) + rng.uniform(0.1, 10) * term(RANKS)
    return np.asarray(curve[:, None] * np.exp(level * rng.standard_normal((RANKS.size, 5))))


@QUICK
@given(TERMS, st.floats(0, 1e3), st.floats(1e-3, 1e3))
def test_exact_data_give_their_term_and_numbers(term: Term, c: float, a: float) -> None:
    y = c + a * term(RANKS)
    model = fit(RANKS, y)
    # a growing part of less than a fiftieth of the tolerance is not visible
    if a * np.ptp(term(RANKS)) < 2e-3 * y.max() and not term.is_constant:
        return
    assert model.term == term
    np.testing.assert_allclose(model.predict(RANKS), y, rtol=1e-9)
    if not term.is_constant:
        assert np.isclose(model.coefficient, a, rtol=1e-5)


@QUICK
@given(noisy(), st.integers(-40, 40))
def test_the_unit_does_not_matter(y: np.ndarray, exponent: int) -> None:
    one, other = judge(RANKS, y, "p log p"), judge(RANKS, y * 2.0**exponent, "p log p")
    assert one.model is not None
    assert other.model is not None
    assert (one.match, one.model.term, one.divergence) == (other.match, other.model.term, other.divergence)
    assert [m.term for m in one.plausible] == [m.term for m in other.plausible]


@QUICK
@given(noisy(), st.randoms(use_true_random=False))
def test_the_order_of_the_measurements_does_not_matter(y: np.ndarray, random: object) -> None:
    xs, ys = np.repeat(RANKS, y.shape[1]), y.ravel()
    order = np.arange(xs.size)
    random.shuffle(order)  # type: ignore[attr-defined]
    one, other = fit(xs, ys), fit(xs[order], ys[order])
    assert one.term == other.term
    assert np.isclose(one.constant, other.constant, rtol=1e-9, atol=1e-12)


@QUICK
@given(noisy())
def test_models_keep_their_constraints_and_plausible_terms_come_from_the_space(y: np.ndarray) -> None:
    verdict = judge(RANKS, y, "p")
    assert verdict.model is not None
    assert (verdict.model.predict(np.geomspace(RANKS[0], 64 * RANKS[-1], 50)) > 0).all()
    assert verdict.model.term.is_constant or verdict.model.coefficient > 0
    space = set(family(falls=True, is_steep=True, is_exponential=True))
    assert {m.term for m in verdict.plausible} <= space
    assert verdict.is_plausible == any(m.term == (0, 1, 0) for m in verdict.plausible)
    if verdict.match == "none":
        assert not verdict.is_plausible


@QUICK
@given(noisy())
def test_the_confidence_band_holds_the_curve(y: np.ndarray) -> None:
    model = fit(RANKS, y)
    at = np.geomspace(4, 1024, 9)
    low, high = model.interval(at)
    middle = model.predict(at)
    assert (low <= middle * (1 + 1e-12)).all()
    assert (middle <= high * (1 + 1e-12)).all()


@given(ANY_TERM)
def test_an_expectation_is_in_its_own_space(term: Term) -> None:
    assert term in ruler(term)
    assert term in space_for(None, term)
    assert set(PAPER) <= set(space_for(None, term))


@given(ANY_TERM, LIMITS)
def test_a_term_matches_itself_and_what_is_within_the_limit(term: Term, limit: Term) -> None:
    assert match(term, term, limit) == "exact"
    assert match(term.times(limit), term, limit) == "approximate"
    assert match(term.over(limit), term, limit) == "approximate"
    assert match(term.times(limit).times(Term(0, 0, "1/9")), term, limit) == "none"


@given(ANY_TERM, ANY_TERM, ANY_TERM)
def test_terms_are_an_ordered_group(a: Term, b: Term, c: Term) -> None:
    assert a.times(b).over(b) == a
    assert (a < b) == (a.times(c) < b.times(c))


@given(ANY_TERM)
def test_printed_terms_are_read_back(term: Term) -> None:
    from labkit.scaling import read_expectation

    again = read_expectation(str(term), "p").term
    assert all(abs(x - y) <= 1e-3 for x, y in zip(term, again, strict=True))


@given(st.sampled_from([t.times(s) for t in WIDE for s in (Term(), Term(0, -2), Term(1))]))
def test_terms_of_the_spaces_are_read_back_exactly(term: Term) -> None:
    from labkit.scaling import read_expectation

    assert read_expectation(str(term), "p").term == term


@st.composite
def once(draw: st.DrawFn) -> np.ndarray:
    """Return single measurements (7,) of a term, of two levels, or of no model, with up to 10 % noise."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind, term = draw(st.sampled_from(["term", "fall", "levels", "none"])), draw(TERMS)
    noise = draw(st.sampled_from([0.0, 0.01, 0.05, 0.1])) * rng.standard_normal(RANKS.size)
    curve = rng.uniform(0, 10) + rng.uniform(0.1, 10) * term(RANKS)
    if kind == "fall":
        curve = rng.uniform(0, 0.1) + RANKS ** -rng.uniform(0.3, 1.5)
    elif kind == "levels":
        curve = np.where(rng.integers(1, RANKS.size) > np.arange(RANKS.size), 1.0, rng.uniform(1, 3))
    elif kind == "none":
        curve = np.exp(0.5 * rng.standard_normal(RANKS.size))
    return np.asarray(curve * np.exp(noise))


@QUICK
@given(once(), st.sampled_from(["1", "log p", "p", "p^2", "1/p"]))
def test_no_point_is_farther_off_than_a_verdict_says(y: np.ndarray, expected: str) -> None:
    verdict = judge(RANKS, y, expected)
    assert verdict.model is not None

    def off(model: Model) -> float:
        return 100 * float(np.abs(model.predict(RANKS) / y - 1).max())

    said = re.search(r"up to ([\d.]+) % off", verdict.reading)
    if said or not verdict.model.is_nearest:
        assert off(verdict.model) <= 1.06 * (float(said[1]) if said else 5)
    if verdict.plausible:
        (limit,) = re.findall(r"every point within ([\d.]+) %", verdict.test)
        assert max(map(off, verdict.plausible)) <= float(limit) * (1 + 1e-9)


@QUICK
@given(once(), st.sampled_from(["1", "log p", "p", "p^2", "1/p"]))
def test_measurements_entered_twice_change_no_word(y: np.ndarray, expected: str) -> None:
    twice = judge(RANKS, np.stack([y, y], axis=1), expected)
    assert twice.reading == judge(RANKS, y, expected).reading
