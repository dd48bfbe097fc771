"""The parser of expectations: what it reads, what it refuses, and where it points."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest

from labkit.errors import ExpectationError
from labkit.scaling import Term, read_expectation
from tests.support.refusals import raises_code

HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("text", "triple"),
    [
        ("1", (0, 0, 0)),
        ("42", (0, 0, 0)),
        ("log p", (0, 0, 1)),
        ("log2 p", (0, 0, 1)),
        ("ln(p)", (0, 0, 1)),
        ("log^2 p", (0, 0, 2)),
        ("log2^2(p)", (0, 0, 2)),
        ("(log p)^2", (0, 0, 2)),
        ("log(p)**2", (0, 0, 2)),
        ("log p * log p", (0, 0, 2)),
        ("sqrt(p)", (0, HALF, 0)),
        ("√p", (0, HALF, 0)),
        ("sqrt p", (0, HALF, 0)),
        ("sqrt p log p", (0, HALF, 1)),
        ("p^{2} log p", (0, 2, 1)),
        ("p^{1/2}", (0, HALF, 0)),
        (r"$p^2 \log p$", (0, 2, 1)),
        (r"p \cdot \log_2 p", (0, 1, 1)),
        (r"\log_{10}^2 p", (0, 0, 2)),
        ("log_2 p", (0, 0, 1)),
        ("p·log₂(p)", (0, 1, 1)),
        ("log₁₀ p", (0, 0, 1)),
        (r"O(\sqrt{p}\,\log p)", (0, HALF, 1)),
        (r"\frac{p^2}{p}", (0, 1, 0)),
        (r"\left(p\right)^2", (0, 2, 0)),
        ("p^(1/2)", (0, HALF, 0)),
        ("cbrt(p)", (0, Fraction(1, 3), 0)),
        ("p", (0, 1, 0)),
        ("3p", (0, 1, 0)),
        ("p log2(p)", (0, 1, 1)),
        ("p*log2(p)", (0, 1, 1)),
        ("O(p log p)", (0, 1, 1)),
        ("Θ(p·log p)", (0, 1, 1)),
        ("p^2 log p", (0, 2, 1)),
        ("p² log² p", (0, 2, 2)),
        ("p**0.75", (0, Fraction(3, 4), 0)),
        ("p^0.67 log p", (0, Fraction(2, 3), 1)),
        ("p^1.33", (0, Fraction(4, 3), 0)),
        ("p^0.3333333", (0, Fraction(1, 3), 0)),
        ("p^0.375", (0, Fraction(3, 8), 0)),
        ("2^p", (1, 0, 0)),
        ("4^p", (2, 0, 0)),
        ("2^(p/2)", (HALF, 0, 0)),
        ("2^(p+3)", (1, 0, 0)),
        ("p^3 * 2^p", (1, 3, 0)),
        ("p^3 2^p log p", (1, 3, 1)),
        ("1/p", (0, -1, 0)),
        ("p^-0.25", (0, Fraction(-1, 4), 0)),
        ("p^0.75/log p", (0, Fraction(3, 4), -1)),
        ("log p / p", (0, -1, 1)),
        ("p + log p", (0, 1, 0)),
        ("log p + p + sqrt(p)", (0, 1, 0)),
        ("(p + log p)^2", (0, 2, 0)),
        ("p/(1 + log p)", (0, 1, -1)),
        ("p log(p^2)", (0, 1, 1)),
        ("log(p log p)", (0, 0, 1)),
        ("log(2^p)", (0, 1, 0)),
        ("b/k (n/p + 2^k + log p)", (0, 0, 1)),
    ],
)
def test_reads(text: str, triple: tuple[object, ...]) -> None:
    assert read_expectation(text).term == triple


@pytest.mark.parametrize(
    ("text", "position", "word"),
    [
        ("", 1, "empty"),
        ("p $ 2", 3, "'$'"),
        ("p log", 6, "needs an argument"),
        ("plogp", 1, "write 'p log(p)'"),
        ("p - 1", 3, "no minus"),
        ("p^1/2", 2, "two ways"),
        ("log p^2", 6, "two ways"),
        ("n/p log n/p", 10, "two ways"),
        ("3^p", 1, "powers of two"),
        ("exp(p)", 1, "powers of two"),
        ("(p", 3, "')'"),
        ("p)", 2, "go on"),
        ("log log p", 5, "logarithm of a logarithm"),
        ("log(1/p)", 4, "negative"),
        ("foo(p)", 1, "not known"),
        ("p^p", 1, "number may be raised"),
        ("0*p", 1, "positive"),
        ("p^", 3, "expected"),
        ("p/0", 3, "order of growth"),
        ("p^65", 1, "64"),
        ("10^(10^10)", 1, "64"),
        ("2^(p^2)", 1, "exponent"),
        ("p/(0+9)", 3, "0 is not an order"),
        ("log(0+9)", 4, "0 is not an order"),
        ("sqrt(0+p)", 1, "0 is not an order"),
    ],
)
def test_refuses_with_a_position_and_examples(text: str, position: int, word: str) -> None:
    with pytest.raises(ExpectationError) as caught:
        read_expectation(text)
    message = str(caught.value)
    assert f"position {position}:" in message
    assert word in message
    assert "p^2 log p" in message  # the examples
    if text:
        lines = message.splitlines()
        assert lines[2].index("^") - 4 == position - 1


@pytest.mark.parametrize("bad", [3, None, ["p"], b"p"])
def test_refuses_what_is_no_text(bad: object) -> None:
    with raises_code(ExpectationError, "malformed-expression"):
        read_expectation(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bound", ["Ω(p)", "ω(log p)", "Omega(p^2)"])
def test_refuses_a_lower_bound(bound: str) -> None:
    with raises_code(ExpectationError, "malformed-expression", "lower bound"):
        read_expectation(bound)


def test_refuses_monsters_quickly() -> None:
    with raises_code(ExpectationError, "malformed-expression"):
        read_expectation("(" * 5000 + "p" + ")" * 5000)
    assert read_expectation("(p+1)" * 20).term == (0, 20, 0)


def test_a_fixed_symbol_leaves_the_logarithm_of_a_quotient_constant() -> None:
    e = read_expectation("n/p * log2(n/p)", given={"n": 4096})
    assert e.term == (0, -1, 0)
    assert np.allclose(e([1, 2, 64]), [12, 11 / 2, 6 / 64])


def test_weak_scaling_turns_local_work_into_a_constant() -> None:
    e = read_expectation("n/p log2(n/p) + p log^2 n", given={"n": "1000 * p"})
    assert e.term == (0, 1, 2)
    assert np.allclose(e([2, 8]), [2 * np.log2(2000) ** 2, 8 * np.log2(8000) ** 2])
    assert read_expectation("n/p * log(n/p)", given={"n": "1000 p"}).term == (0, 0, 0)


def test_says_which_parameters_there_are() -> None:
    with raises_code(ExpectationError, "ambiguous"):
        read_expectation("x y")
    with raises_code(ExpectationError, "malformed-expression", "'p'"):
        read_expectation("n log n", "p")
    with raises_code(ExpectationError, "malformed-expression"):
        read_expectation("n/p", given={"n": -1})


@pytest.mark.parametrize(
    ("term", "text", "html"),
    [
        (Term(), "1", "1"),
        (Term(0, "1/4"), "p^0.25", "<i>p</i><sup>0.25</sup>"),
        (Term(0, 0, -1), "1/log p", "1/log <i>p</i>"),
        (Term(0, "2/3", 1), "p^0.67 log p", "<i>p</i><sup>0.67</sup>&nbsp;log <i>p</i>"),
        (Term(0, "1/2", -1), "sqrt(p)/log p", "√<i>p</i>/log <i>p</i>"),
        (Term(0, "-1/4"), "p^-0.25", "<i>p</i><sup>−0.25</sup>"),
        (Term(1, 3, 0, "k"), "k^3 2^k", "<i>k</i><sup>3</sup>&nbsp;2<sup><i>k</i></sup>"),
        (Term(0, -1, 0, "k"), "1/k", "1/<i>k</i>"),
    ],
)
def test_prints_as_the_literature_does(term: Term, text: str, html: str) -> None:
    assert str(term) == text
    assert term.html() == html


def test_a_term_is_a_tuple_that_keeps_its_symbol() -> None:
    term = Term(0, 1, 1, "n")
    assert term == (0, 1, 1)
    assert {term: 1}[Term(0, 1, 1)] == 1
    assert str(pickle.loads(pickle.dumps(term))) == "n log n"
    assert sorted([Term(1), Term(0, 2), Term(0, 1, 5), Term(0, 0, 9)]) == [
        (0, 0, 9), (0, 1, 5), (0, 2, 0), (1, 0, 0),
    ]  # fmt: skip
