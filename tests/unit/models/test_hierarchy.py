"""Models as formulas: numbers, algebra, the hierarchy, against runs and studies."""

from __future__ import annotations

import math
from html import unescape
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import DataError
from labkit.models import P, S, asymptotic, bounded, dominant, exact, maximum
from tests.support.refusals import raises_code

EQUATION_1 = exact([
    ("S < 256", "4.5 us + 2.67 ns/B * S"),
    ("S <= 1024", "5.7 us + 2.67 ns/B * S"),
    (True, "9.8 us + 2.67 ns/B * S"),
])  # fmt: skip
EQUATION_2 = bounded("9.8 us + 2.67 ns/B * S", "9.8 us + 2.67 ns/B * S * 3/2 * cbrt(P)")
TREE = exact("13 us + .31 us * log2(P)")


@pytest.mark.parametrize(
    ("size", "start"),
    [(0, 4.5e-6), (255, 4.5e-6), (256, 5.7e-6), (1024, 5.7e-6), (1025, 9.8e-6), (1e6, 9.8e-6)],
)
def test_equation_1(size: float, start: float) -> None:
    assert EQUATION_1.evaluate(S=size) == pytest.approx(start + 2.67e-9 * size, rel=1e-12)


@pytest.mark.parametrize("p", [1, 8, 64, 4096])
def test_equation_2(p: int) -> None:
    lower, upper = EQUATION_2.evaluate(S=10**6, P=p)
    assert lower == pytest.approx(9.8e-6 + 2.67e-3, rel=1e-12)
    assert upper == pytest.approx(9.8e-6 + 2.67e-3 * 1.5 * p ** (1 / 3), rel=1e-12)


@given(
    a=st.floats(0, 1e-3), b=st.floats(0, 1e-6), c=st.floats(0, 1e-3), size=st.integers(0, 2**30),
    p=st.integers(1, 2**20),
)  # fmt: skip
def test_algebra_is_that_of_the_times(a: float, b: float, c: float, size: int, p: int) -> None:
    one, two = exact(a + b * S), exact(c * sympy.log(P, 2))
    x, y = a + b * size, c * math.log2(p)
    for made, value in (
        (one + two, x + y),
        (one * 3, 3 * x),
        ("P - 1" * one, (p - 1) * x),
        (maximum(one, two), max(x, y)),
        (one(S="S / P"), a + b * size / p),
    ):
        assert made.kind == "exact"
        assert made.evaluate(S=size, P=p) == pytest.approx(value, rel=1e-9, abs=1e-18)


def test_a_sum_is_as_weak_as_its_weakest_part() -> None:
    kinds = [EQUATION_1, EQUATION_2, TREE.dominant(), asymptotic("log(P)")]
    order = ["exact", "bounded", "dominant", "asymptotic"]
    for i, one in enumerate(kinds):
        for j, other in enumerate(kinds):
            assert (one + other).kind == order[max(i, j)]


@pytest.mark.parametrize(
    ("formula", "growth"),
    [
        ("S + log(P)", "S + log(P)"),
        ("3*S + 7 + 5*log2(P)", "S + log(P)"),
        ("S*log(P) + S + P", "P + S*log(P)"),
        ("3*P^2 + P*log(P) + S*cbrt(P)", "P^(1/3)*S + P^2"),
        ("P - P + 4", "1"),
        ("2*log2(P/4) + ceil(P/3)", "P"),
        ("max(S, P) + 1", "P + S"),
        ("P^2*S - P^2*S + P", "P"),
        ("2^P + P", "2^P + P"),  # terms that are no powers are all kept
    ],
)
def test_growth(formula: str, growth: str) -> None:
    assert str(exact(formula).asymptotic()) == f"O({growth})"


def test_the_hierarchy_only_weakens() -> None:
    model = exact("4 us + 3 ns/B * S + 2 us * P - 1 us * log2(P)")
    assert model.dominant().evaluate(S=10, P=8) == pytest.approx(30e-9 + 16e-6)
    assert str(EQUATION_2.asymptotic()) == "O(P^(1/3)*S)"
    with pytest.raises(DataError):
        asymptotic("P").dominant()
    with pytest.raises(DataError):
        asymptotic("P").evaluate(P=4)


@pytest.mark.parametrize(
    "text",
    ["9.8 us + x", "import os", "S**", "__import__('os')", "4 lightyears * S", "S[0]", "S;P", "", "S.real"],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        exact(text)


@pytest.mark.parametrize(
    "bad", [(lambda: exact([])), (lambda: EQUATION_1 * -2), (lambda: EQUATION_1 + 3), maximum]
)
def test_other_values_are_refused(bad: Any) -> None:
    with pytest.raises(DataError):
        bad()


def test_a_missing_piece_is_said() -> None:
    with raises_code(DataError, "out-of-range", "300"):
        exact([("S < 256", "1 us")]).evaluate(S=300)


def test_it_is_shown_as_text_latex_and_html() -> None:
    for model in (
        EQUATION_1,
        EQUATION_2,
        TREE,
        dominant("4 ns/B * S"),
        asymptotic("S + log(P)"),
        maximum(TREE, EQUATION_1),
    ):
        assert "S" in str(model) or "P" in str(model)
        assert model._repr_latex_().count("$") == 2
        assert unescape(model._repr_html_()).replace("≤", "<=").endswith(f"<div>{model}</div>")
    assert str(TREE) == "T = 13 µs + 310 ns log2(P)"
    assert "T <=" in str(EQUATION_2)


def program(comm: Any) -> None:
    comm.Barrier()


def test_against_a_study_and_a_run() -> None:
    study = lk.sweep(program, ranks=[2, 4, 8], on="star", coll={"barrier": "dissemination"})
    times = study.data[study.data["metric"] == "makespan_s"].set_index("ranks")["value"]
    round_s = float(times[2])
    model = exact(round_s * sympy.log(P, 2))
    compared = model.compare(study)
    assert compared.largest_error < 1e-6
    assert list(compared.data["ranks"]) == [2, 4, 8]
    run = lk.run(program, 8, "star", coll={"barrier": "dissemination"})
    assert model.inside_bounds(run, tolerance=1e-6)
    assert not (model * 2).inside_bounds(run)
    wide = bounded(model.lower * 0.5, model.upper * 2)
    assert wide.inside_bounds(run)
    assert wide.compare(study).outside.empty
    narrow = bounded(model.lower * 0.5, model.upper * 0.75).compare(study)
    assert len(narrow.outside) == 3
    assert narrow.largest_error == pytest.approx(0.25, rel=1e-3)
    assert "0 of 3" in str(narrow)


def test_arrays() -> None:
    lower, upper = EQUATION_2.evaluate(S=np.array([[10.0], [20.0]]), P=[1, 8, 27])
    assert lower.shape == upper.shape == (2, 3)
