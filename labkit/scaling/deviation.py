"""Deviation limits: how far a model may be from its expectation and still match approximately."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from labkit.errors import ExpectationError
from labkit.scaling.expectation import read_term
from labkit.scaling.term import CONSTANT, Term

__all__ = ["Deviation", "deviation_for", "match", "outcome"]


@dataclass(frozen=True)
class Deviation:
    """The limit D: a model G matches E approximately iff E/D <= G <= E*D.

    Attributes
    ----------
    term : Term
        D, at least 1.
    origin : str
        "default", "strict" or "given".
    """

    term: Term
    origin: str

    def __str__(self) -> str:
        """Print the limit."""
        return str(self.term)


def deviation_for(expectation: Term, deviation: str | Term | None = None) -> Deviation:
    """Return the limit to use for an expectation.

    Parameters
    ----------
    expectation : Term
        E's leading term.
    deviation : str or Term, optional
        An own limit such as ``"log p"``; "strict" for E's leading exponent halved in its own class
        (Shudler et al., section 2.3; wider than sqrt x for x^2); by default sqrt x, the limit of
        their case study, and 2^(e x / 2) for an exponential expectation 2^(e x).

    Raises
    ------
    ExpectationError
        For a limit below 1.
    """
    symbol = expectation.symbol
    e, q, r = expectation
    if deviation is None:
        default = Term(abs(e) / 2) if e else Term(0, Fraction(1, 2))
        return Deviation(default.named(symbol), "default")
    if deviation == "strict":
        own = Term(abs(e) / 2) if e else Term(0, abs(q) / 2) if q else Term(0, 0, abs(r) / 2)
        if own.is_constant:  # E = O(1): half of nothing
            own = Term(0, Fraction(1, 2))
        return Deviation(own.named(symbol), "strict")
    term = read_term(deviation, symbol)
    if term < CONSTANT:
        raise ExpectationError(f"a deviation limit is at least 1; {term} falls")
    return Deviation(term, "given")


def match(model: Term, expectation: Term, deviation: Term) -> str:
    """Return "exact", "approximate" or "none", by comparing exponents, limits included."""
    divergence = model.over(expectation)
    if divergence.is_constant:
        return "exact"
    if CONSTANT.over(deviation) <= divergence <= deviation:
        return "approximate"
    return "none"


@lru_cache(maxsize=1 << 14)
def outcome(model: Term, expectation: Term, deviation: Term) -> str:
    """Return `match`, with "bound" for slower growth than the limit allows: an upper bound holds."""
    found = match(model, expectation, deviation)
    return "bound" if found == "none" and model < expectation else found
