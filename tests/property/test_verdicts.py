"""Whatever is expected and measured: a verdict that agrees with its own test, or a sentence."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.errors import LabkitError
from labkit.scaling import judge, limit

QUICK = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
RANKS = np.array([4.0, 8, 16, 32, 64, 128, 256, 512])
PIECES = st.sampled_from(
    ["p", "n", "log", "log2", "(", ")", "^", "**", "2", "0.5", "1/3", "+", "-", "*", "/", " ", "O(", "sqrt",
     "1", "constant", "linear", "q", "√", "²", "1e9", ".", "ε", "\n", "p log p", "2^p", "n/p"]
)  # fmt: skip
EXPECTATIONS = st.one_of(st.lists(PIECES, max_size=9).map("".join), st.text(max_size=14))
NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)
KNOWN = st.sampled_from(["1", "log p", "sqrt(p)", "p", "p log p", "p^2", "1/p", "p^2 log p + p", "2^p"])


@QUICK
@given(EXPECTATIONS)
def test_any_expectation_gives_a_verdict_or_a_sentence(text: str) -> None:
    try:
        verdict = judge(RANKS, 3 + RANKS * np.log2(RANKS), text)
    except LabkitError as error:
        said = str(error)
    else:
        said = verdict.reading
        assert said.endswith(".")
    assert len(said) > 20


@QUICK
@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=24), KNOWN)
def test_any_data_give_a_verdict_or_a_sentence(rows: list[tuple[float, float]], expectation: str) -> None:
    try:
        verdict = judge([x for x, _ in rows], [y for _, y in rows], expectation)
    except LabkitError as error:
        said = str(error)
    else:
        said = verdict.reading
        assert said.endswith(".")
        assert str(verdict)
        assert verdict.to_dict()["match"] == verdict.match
    assert len(said) > 20


@QUICK
@given(
    st.lists(st.floats(1e-6, 1e6), min_size=8, max_size=8),
    st.sampled_from([0.0, 0.05]),
    st.integers(0, 999),
    KNOWN,
)
def test_a_verdict_never_contradicts_its_own_test(
    shape: list[float], noise: float, seed: int, expectation: str
) -> None:
    rng = np.random.default_rng(seed)
    y = np.cumsum(shape)[:, None] * (1 + noise * np.clip(rng.standard_normal((8, 4)), -3, 3))
    verdict = judge(RANKS, y, expectation)
    assert verdict.model is not None
    if verdict.match in ("exact", "approximate"):
        assert verdict.model.term in {m.term for m in verdict.plausible}
        assert not verdict.seen
    if verdict.match == "exact":
        assert verdict.is_plausible
    if verdict.match == "none":
        assert not verdict.is_plausible
    rises = y.mean(axis=1)[-1] / y.mean(axis=1)[0] - 1
    if rises > 0.2 and verdict.match != "undecided":
        assert "it stays constant" not in verdict.reading
        assert "it falls" not in verdict.reading
    assert str(limit(verdict.model, 3.0)).endswith(".")
