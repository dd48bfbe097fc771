"""The words of verdicts: a table of every combination of growing, constant and falling."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit.scaling import Term
from labkit.scaling.verdict import growth, pace

P = np.array([32.0, 64, 128, 256, 512, 1024])

#: expected, measured, match, words
TABLE = [
    ("p", lambda p: p, "exact", "Exact match: it grows like p, as expected"),
    ("p", lambda p: p**2, "none", "No match: it grows like p^2, faster than p by p, beyond"),
    ("p^2", lambda p: p, "bound", "The bound holds but is not tight: it grows like p, slower than p^2 by p"),
    ("p", lambda p: p**1.25, "approximate", "it grows like p^1.25, faster than p by p^0.25, within"),
    ("p", lambda p: p**0.75, "approximate", "it grows like p^0.75, slower than p by p^0.25, within"),
    ("p", lambda p: 3 + 0 * p, "bound", "it is constant, where it may grow like p"),
    ("p", lambda p: 3 / p, "bound", "it falls like 1/p, where it may grow like p"),
    ("1", lambda p: 3 + 0 * p, "exact", "Exact match: it is constant, as expected"),
    ("1", lambda p: p, "none", "it grows like p, where it should be constant"),
    ("1", lambda p: np.log2(p), "approximate", "it grows like log p, where it should be constant, within"),
    ("1", lambda p: 3 / p, "bound", "it falls like 1/p, where it may be constant"),
    ("1/p", lambda p: 3 / p, "exact", "Exact match: it falls like 1/p, as expected"),
    ("1/p", lambda p: 3 / p**2, "bound", "it falls like 1/p^2, faster than 1/p by p"),
    ("1/p^2", lambda p: 3 / p, "none", "it falls like 1/p, slower than 1/p^2 by p, beyond"),
    ("1/p", lambda p: 3 / p**0.75, "approximate", "slower than 1/p by p^0.25, within"),
    ("1/p", lambda p: 3 / p**1.25, "approximate", "faster than 1/p by p^0.25, within"),
    ("1/p", lambda p: 3 + 0 * p, "none", "it is constant, where it should fall like 1/p"),
    ("1/p", lambda p: p, "none", "it grows like p, where it should fall like 1/p"),
]


@pytest.mark.parametrize(("expected", "truth", "match", "words"), TABLE)
def test_every_combination(expected: str, truth: object, match: str, words: str) -> None:
    verdict = lk.judge(P, truth(P), expected)  # type: ignore[operator]
    assert verdict.match == match
    reading = verdict.reading.replace("p^-2", "1/p^2").replace("p^-0.75", "1/p^0.75")
    assert words in reading


@pytest.mark.parametrize("expected", [Term(0, q, r) for q in (-1, 0, 1) for r in (-1, 0, 1)])
@pytest.mark.parametrize("measured", [Term(0, q, r) for q in (-1, 0, 1) for r in (-1, 0, 1)])
def test_words_agree_with_the_order_of_growth(expected: Term, measured: Term) -> None:
    words, verb = pace(measured, expected), growth(measured).split()[0]
    assert verb == ("is" if measured.is_constant else "falls" if measured.is_falling else "grows")
    if "faster" in words or "slower" in words:
        quicker = measured < expected if measured.is_falling else measured > expected
        assert words.startswith("faster" if quicker else "slower")
    elif measured != expected:
        assert ("should" in words) == (measured > expected)
        assert ("fall" in words) == expected.is_falling
        assert ("grow" in words) == (expected > (0, 0, 0))


@pytest.mark.parametrize("seed", range(40))
def test_nothing_that_rises_by_a_fifth_is_exactly_constant_or_falling(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.linspace(1, 1.2 + rng.uniform(0, 1), P.size)[:, None] * (
        1 + 0.1 * rng.standard_normal((P.size, 3))
    )
    if y.mean(axis=1)[-1] < 1.2 * y.mean(axis=1)[0]:
        return
    for expected in ("1", "p", "1/p"):
        verdict = lk.judge(P, y, expected)
        assert "it falls" not in verdict.reading
        if expected == "1":
            assert verdict.match != "exact" or "levels off" in verdict.reading
            assert "is constant" not in verdict.reading.split("where")[0] or any(
                "rise" in n for n in verdict.notes
            )


#: (what is varied, expectation, times over p, what is fixed): weak and strong scaling in every direction
SCALINGS = [
    ("n/p", lambda p: 1e6 / p, {"n": 1e6}, "exact", "it falls like 1/p, as expected"),
    ("n/p", lambda p: 1e6 / p**0.75, {"n": 1e6}, "approximate", "slower than 1/p by p^0.25"),
    ("n/p", lambda p: 1e6 / p**1.25, {"n": 1e6}, "approximate", "faster than 1/p by p^0.25"),
    ("n/p", lambda p: 5 + 0 * p, {"n": 1e6}, "none", "it is constant, where it should fall like 1/p"),
    ("n/p", lambda p: 5 * p, {"n": 1e6}, "none", "it grows like p, where it should fall like 1/p"),
    ("n/p", lambda p: 5 + 0 * p, {"n": "1000 * p"}, "exact", "it is constant, as expected"),
    ("n/p", lambda p: 5 * p, {"n": "1000 * p"}, "none", "it grows like p, where it should be constant"),
    ("n/p", lambda p: 5 / p, {"n": "1000 * p"}, "bound", "it falls like 1/p, where it may be constant"),
    ("n", lambda p: 5 * p, {"n": "1000 * p"}, "exact", "it grows like p, as expected"),
    ("n", lambda p: 5 / p, {"n": "1000 * p"}, "bound", "it falls like 1/p, where it may grow like p"),
    ("n", lambda p: 5 * p**2, {"n": "1000 * p"}, "none", "it grows like p^2, faster than p by p"),
    ("n", lambda p: 5 + 0 * p, {"n": "1000 * p"}, "bound", "it is constant, where it may grow like p"),
]


@pytest.mark.parametrize(("expected", "truth", "given", "match", "words"), SCALINGS)
def test_weak_and_strong_scaling(
    expected: str, truth: object, given: dict[str, float | str], match: str, words: str
) -> None:
    verdict = lk.judge(P, truth(P), expected, parameter="p", given=given)  # type: ignore[operator]
    assert verdict.match == match
    reading = verdict.reading.replace("p^-0.75", "1/p^0.75").replace("p^-1.25", "1/p^1.25")
    assert words in reading


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("direction", [1, -1])
def test_data_without_a_law_are_told_in_their_own_direction(seed: int, direction: int) -> None:
    """Bends, jumps and wobbles, rising or falling: no word goes the other way."""
    rng = np.random.default_rng(seed)
    steps = rng.uniform(0.08, 1.2, P.size) * rng.choice([1, 0.1], P.size)
    y = np.exp(direction * np.cumsum(steps))
    for expected in ("1", "log p", "p", "p^2", "1/p", "1/log p"):
        verdict = lk.judge(P, y, expected)
        told = verdict.reading.split("where")[0]
        change = y[-1] / y[0]
        if not 0.8 < change < 1.2 and not verdict.seen:
            assert "is constant" not in told
        if verdict.model is not None and verdict.model.is_nearest:
            assert ("rises" in verdict.seen) == (direction > 0)
            assert ("falls" in verdict.seen) == (direction < 0)
        elif not verdict.seen:
            assert ("it grows" in told) <= (direction > 0)
            assert ("it falls" in told) <= (direction < 0 or "falls to about its least" in told)
