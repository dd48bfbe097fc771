"""A rule between operations: what it says, and that it has two sides."""

from __future__ import annotations

from labkit.errors import DataError
from labkit.scaling import check_guideline, fit, read_expectation
from tests.support.refusals import raises_code


def test_of_a_sum_the_largest_leads() -> None:
    left, slow, fast = (read_expectation(text).term for text in ("p", "log p", "p^2"))
    assert not check_guideline(left, [slow, fast]).is_violated
    assert str(check_guideline(left, [slow])) == "O(p) > (violation predicted) O(log p)"


def test_a_model_stands_for_its_leading_term() -> None:
    p = [4, 8, 16, 32, 64]
    assert not check_guideline(fit(p, [3.0 * v for v in p]), [read_expectation("p").term]).is_violated


def test_nothing_on_the_right_is_told() -> None:
    with raises_code(DataError, "missing-key"):
        check_guideline(read_expectation("p").term, [])
