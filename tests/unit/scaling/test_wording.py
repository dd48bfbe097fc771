"""The words of verdicts: a table of every combination of growing, constant and falling."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit.scaling import Term
from labkit.scaling.wording import growth, pace

P = np.array([32.0, 64, 128, 256, 512, 1024])

#: expected, measured, match, words
TABLE = [
    ("p", lambda p: p, "exact", "Exact match: it grows as p, as expected"),
    ("p", lambda p: p**2, "none", "No match: it grows as p^2, faster than p by p, beyond"),
    ("p^2", lambda p: p, "bound", "The bound holds, it is not tight: it grows as p, slower than p^2 by p"),
    ("p", lambda p: p**1.25, "approximate", "it grows as p^1.25, faster than p by p^0.25, within"),
    ("p", lambda p: p**0.75, "approximate", "it grows as p^0.75, slower than p by p^0.25, within"),
    ("p", lambda p: 3 + 0 * p, "bound", "it stays constant, where it might grow as p"),
    ("p", lambda p: 3 / p, "bound", "it falls as 1/p, where it might grow as p"),
    ("1", lambda p: 3 + 0 * p, "exact", "Exact match: it stays constant, as expected"),
    ("1", lambda p: p, "none", "it grows as p, where it should stay constant"),
    ("1", lambda p: np.log2(p), "approximate", "it grows as log p, where it should stay constant, within"),
    ("1", lambda p: 3 / p, "bound", "it falls as 1/p, where it might stay constant"),
    ("1/p", lambda p: 3 / p, "exact", "Exact match: it falls as 1/p, as expected"),
    ("1/p", lambda p: 3 / p**2, "bound", "it falls as 1/p^2, faster than 1/p by p"),
    ("1/p^2", lambda p: 3 / p, "none", "it falls as 1/p, slower than 1/p^2 by p, beyond"),
    ("1/p", lambda p: 3 / p**0.75, "approximate", "slower than 1/p by p^0.25, within"),
    ("1/p", lambda p: 3 / p**1.25, "approximate", "faster than 1/p by p^0.25, within"),
    ("1/p", lambda p: 3 + 0 * p, "none", "it stays constant, where it should fall as 1/p"),
    ("1/p", lambda p: p, "none", "it grows as p, where it should fall as 1/p"),
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
    assert verb == ("stays" if measured.is_constant else "falls" if measured.is_falling else "grows")
    if "faster" in words or "slower" in words:
        quicker = measured < expected if measured.is_falling else measured > expected
        assert words.startswith("faster" if quicker else "slower")
    elif measured != expected:
        assert ("should" in words) == (measured > expected)
        assert ("fall" in words) == expected.is_falling
        assert ("grow" in words) == (expected > (0, 0, 0))


@pytest.mark.parametrize("seed", range(40))
def test_nothing_that_rises_by_a_fifth_is_called_constant_or_falling(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.linspace(1, 1.2 + rng.uniform(0, 1), P.size)[:, None] * (
        1 + 0.1 * rng.standard_normal((P.size, 3))
    )
    if y.mean(axis=1)[-1] < 1.2 * y.mean(axis=1)[0]:
        return
    for expected in ("1", "p", "1/p"):
        verdict = lk.judge(P, y, expected)
        assert verdict.match == "undecided" or "constant," not in verdict.reading.split("where")[0]
        assert "it falls" not in verdict.reading
