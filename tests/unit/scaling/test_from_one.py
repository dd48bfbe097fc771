"""Steps, messages and blocks that count p - 1: nothing on one rank, one more for each further rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.scaling import fit, judge

MIXED = np.sort(np.concatenate([2 ** np.arange(1, 7), 3 * 2 ** np.arange(6)])).astype(float)


@given(
    a=st.floats(1e-9, 1e12), share=st.floats(0.02, 1), noise=st.sampled_from([1e-12, 1e-9, 1e-6, 1e-4, 1e-3]),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_a_step_less_for_a_rank_less_is_linear(a: float, share: float, noise: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = a * (MIXED - share) * (1 + noise * rng.uniform(-1, 1, MIXED.size))
    model = fit(MIXED, y)
    near = noise <= 1e-4 or share > 0.9
    if near:
        assert str(model.term) == "p"
        assert model.coefficient == pytest.approx(a, rel=0.01 + 5 * noise)
        assert model.constant == pytest.approx(-a * share, abs=a * (0.01 + 10 * noise))
        assert (model.predict(MIXED) > 0).all()
    assert judge(MIXED, y, "p").match in ("exact", "approximate")


def test_squares_less_one() -> None:
    y = 3.0 * (MIXED**2 - 1) * (1 + 1e-7 * np.cos(MIXED))
    assert str(fit(MIXED, y).term) == "p^2"


def test_repetitions_keep_it() -> None:
    rng = np.random.default_rng(3)
    y = 2e-6 * (MIXED - 1)[:, None] * (1 + 2e-3 * rng.standard_normal((MIXED.size, 5)))
    assert str(fit(MIXED, y).term) == "p"
    assert judge(MIXED, y, "p").match == "exact"
    assert judge(MIXED, y, "log p").match == "none"
