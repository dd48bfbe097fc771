"""Search spaces and deviation limits against the counts and examples of the literature."""

from __future__ import annotations

from fractions import Fraction

import pytest

from labkit.errors import ExpectationError
from labkit.scaling import PAPER, WIDE, Term, deviation_for, match, ruler, space_for
from tests.support.refusals import raises_code


def test_the_named_spaces_have_their_sizes() -> None:
    assert len(PAPER) == len(set(PAPER)) == 26
    assert len(WIDE) == len(set(WIDE)) == 39
    assert {t.polynomial for t in PAPER} == {Fraction(k, 4) for k in range(9)} | {
        Fraction(k, 3) for k in range(7)
    }


def test_the_ruler_of_p_is_the_one_printed() -> None:
    quarters = [Fraction(k, 4) for k in range(9)]
    printed = {(0, q, r) for q in quarters for r in (0, 1)} - {(0, 2, 1)}
    assert set(ruler(Term(0, 1))) == printed
    assert len(ruler(Term(0, 1))) == 17


def test_the_ruler_of_p_log_p_has_27_terms() -> None:
    assert len(ruler(Term(0, 1, 1))) == 27


@pytest.mark.parametrize("model", ["k^4 2^k", "k^2 2^k", "k^3 2^k"])
def test_the_ruler_of_an_exponential_reaches_its_neighbors(model: str) -> None:
    from labkit.scaling import read_expectation

    assert read_expectation(model).term in ruler(read_expectation("k^3 2^k").term)


def test_logarithms_and_constants_use_the_default_space() -> None:
    assert set(PAPER) <= set(ruler(Term(0, 0, 1)))
    assert set(PAPER) == set(ruler(Term()))
    assert Term(0, "1/2") in ruler(Term(0, 0, 2))


def test_a_falling_ruler_is_the_mirror() -> None:
    terms = ruler(Term(0, -1))
    assert min(terms) == (0, -2, 0)
    assert max(terms) == (0, 0, 0)
    assert Term(0, "-1/2", 1) in terms


def test_the_joined_space_holds_both_and_the_expectation() -> None:
    e = Term(0, "7/5", 3)
    joined = set(space_for(None, e))
    assert joined == set(ruler(e)) | set(WIDE)
    assert e in space_for("paper", e)
    assert e in space_for([Term(0, 1)], e)


def test_refuses_unknown_spaces() -> None:
    with raises_code(ExpectationError, "malformed-expression"):
        space_for("narrow", None)
    with raises_code(ExpectationError, "malformed-expression", "none"):
        space_for("ruler", None)


@pytest.mark.parametrize(
    ("expectation", "deviation", "limit"),
    [
        (Term(), None, (0, Fraction(1, 2), 0)),
        (Term(0, 0, 1), None, (0, Fraction(1, 2), 0)),
        (Term(0, 2), None, (0, Fraction(1, 2), 0)),
        (Term(1, 3), None, (Fraction(1, 2), 0, 0)),
        (Term(0, 2, 1), "strict", (0, 1, 0)),
        (Term(0, 0, 1), "strict", (0, 0, Fraction(1, 2))),
        (Term(2, 1), "strict", (1, 0, 0)),
        (Term(), "strict", (0, Fraction(1, 2), 0)),
        (Term(0, 1), "log p", (0, 0, 1)),
        (Term(0, 1), Term(0, "1/4"), (0, Fraction(1, 4), 0)),
    ],
)
def test_limits(expectation: Term, deviation: str | Term | None, limit: tuple[object, ...]) -> None:
    assert deviation_for(expectation, deviation).term == limit


def test_a_limit_below_one_is_refused() -> None:
    with raises_code(ExpectationError, "out-of-range", "1"):
        deviation_for(Term(0, 1), "1/p")


def test_limits_are_inclusive_and_symbolic() -> None:
    e, d = Term(0, 1, 1), Term(0, "1/2")
    assert match(Term(0, 1, 1), e, d) == "exact"
    assert match(Term(0, "3/2", 1), e, d) == "approximate"
    assert match(Term(0, "1/2", 1), e, d) == "approximate"
    assert match(Term(0, "3/2", 2), e, d) == "none"  # beyond by a logarithm, at any p
    assert match(Term(0, "1/2", 0), e, d) == "none"
