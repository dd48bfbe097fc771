"""Laws that turn steeper at one place, as where messages leave a cache or a protocol."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit.scaling.term import Term

P = 2.0 ** np.arange(1, 10)
TERMS = {"p": P, "p log p": P * np.log2(P)}


def bent(e: str, at: int, times: float, constant: float = 10.0) -> np.ndarray:
    f = TERMS[e]
    return constant + f + (times - 1) * np.maximum(f - f[at], 0.0)


@pytest.mark.parametrize("e", TERMS)
@pytest.mark.parametrize("at", [2, 3, 4, 5])
@pytest.mark.parametrize("times", [3.0, 5.0, 20.0])
def test_a_steeper_second_piece_is_as_expected(e: str, at: int, times: float) -> None:
    v = lk.judge(P, bent(e, at, times), e)
    assert v.match == "approximate"
    model = v.model
    assert model is not None
    assert model.before is not None
    assert model.term == model.before.term == lk.judge(P, TERMS[e], e).model.term
    assert model.coefficient / model.before.coefficient == pytest.approx(times, rel=0.02)
    assert model.since in (P[at], P[at + 1])
    assert lk.judge(P, bent(e, at, times), "log p").match == "none"


def test_a_flat_first_piece_is_constant() -> None:
    v = lk.judge(P, np.maximum(20.0, P), "p")
    assert v.match == "approximate"
    assert v.model is not None
    assert v.model.before is not None
    assert v.model.before.term.is_constant


@pytest.mark.parametrize("least", [100.0, 200.0])
def test_two_values_behind_a_bend_raise_no_alarm(least: float) -> None:
    """Steep growth met the two values, too: the bend meets them better."""
    v = lk.judge(P[:8], np.maximum(least, P[:8]), "p")
    assert v.match != "none"


@pytest.mark.parametrize("constant", [0.0, 1e2, 1e4])
@pytest.mark.parametrize("power", [2.0, 2.5, 3.0])
def test_steep_growth_is_not_taken_for_a_bend(constant: float, power: float) -> None:
    v = lk.judge(P, constant + 0.1 * P**power, "p")
    assert v.match == "none"
    assert v.model is not None
    assert v.model.term == Term(0, power)


@pytest.mark.parametrize("e", ["1", "log p", "p", "p^2"])
def test_growth_that_no_power_describes_is_an_alarm(e: str) -> None:
    """Ever steeper than the expectation: the last values exceed the limit by far."""
    assert lk.judge(P, 1.05**P, e).match == "none"


def test_a_protocol_that_costs_a_constant_is_a_shift() -> None:
    m = 4.0 ** np.arange(11)
    v = lk.judge(m, 5 + m / 1000 + 3 * (m > 8192), "m")
    assert v.match == "approximate"
    assert "is 3 higher from m = 16,384 on" in str(v)


@pytest.mark.parametrize(("e", "match"), [("m", "approximate"), ("m log m", "approximate"), ("1", "none")])
def test_an_expectation_that_is_zero_at_the_first_value(e: str, match: str) -> None:
    """Data of three laws grow at most like m on the whole, whatever log m is at m = 1."""
    m = 4.0 ** np.arange(11)
    three = 2 + m / 1e4 + 4 * (m > 512) + 3 * np.maximum(m - 65536, 0) / 1000
    assert lk.judge(m, three, e).match == match
