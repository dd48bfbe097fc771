"""Cross-function rules: one operation must not grow faster than those it could be replaced by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labkit.errors import DataError
from labkit.scaling.model import Model
from labkit.scaling.term import Term

__all__ = ["Guideline", "check_guideline"]


@dataclass(frozen=True)
class Guideline:
    """The outcome of left <= right_1 + right_2 + ...

    Attributes
    ----------
    left, right : Term
        The leading terms; of a sum the largest leads.
    is_violated : bool
        Whether a violation is predicted: left grows faster than right.  It says nothing of the
        match of either side with its own expectation, nor of the range that was measured.
    """

    left: Term
    right: Term
    is_violated: bool

    def __str__(self) -> str:
        """Print the rule and its outcome."""
        sign = "> (violation predicted)" if self.is_violated else "<="
        return f"O({self.left}) {sign} O({self.right})"


def check_guideline(left: Model | Term, right: Iterable[Model | Term]) -> Guideline:
    """Check a rule such as Allreduce <= Reduce + Bcast on models.

    Parameters
    ----------
    left : Model or Term
        The operation.
    right : iterable of Model or Term
        The operations that together do the same, one or more.

    Returns
    -------
    Guideline
        The leading terms of both sides, and whether the left one grows faster.

    Raises
    ------
    DataError
        Nothing is on the right.

    References
    ----------
    Shudler et al., IEEE TPDS 30(8), 2019, sections 2.1 and 3.1.
    """
    lead = _term(left)
    others = [_term(one) for one in right]
    if not others:
        raise DataError(
            "a guideline needs what the operation could be replaced by: check_guideline(left, [right])"
        )
    return Guideline(lead, max(others), lead > max(others))


def _term(side: Model | Term) -> Term:
    return side.term if isinstance(side, Model) else side
