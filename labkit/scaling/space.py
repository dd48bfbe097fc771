"""Search spaces: the sets of terms a model is chosen from."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise

from labkit.checks import echo
from labkit.errors import ExpectationError
from labkit.scaling.term import CONSTANT, Term

__all__ = ["LEVELS", "PAPER", "WIDE", "falling", "family", "paper", "ruler", "space_for", "wide"]

_STEPS = 2  # times a ruler's intervals are halved


def _grid(logs: Iterable[int]) -> tuple[Term, ...]:
    exponents = {Fraction(k, 4) for k in range(9)} | {Fraction(k, 3) for k in range(7)}
    return tuple(sorted(Term(0, q, r) for q in exponents for r in logs))


#: {0 and the multiples of 1/4 and 1/3 up to 2} x {log^0, log^1}: 26 terms, the default of the literature
PAPER = _grid((0, 1))
#: the same with log^2: 39 terms
WIDE = _grid((0, 1, 2))


#: x^-q: what is left of a level that data rise or fall to
LEVELS = tuple(sorted(Term(0, -t.polynomial) for t in PAPER if t.polynomial and not t.logarithmic))
#: beyond p^2, for data that rise as steeply
_STEEP = tuple(Term(0, Fraction(q, 4), r) for q in (9, 10, 11, 12, 14, 16) for r in (0, 1))
#: 2^(e x) x^q, for data whose power rises with x
_EXPONENTIAL = tuple(Term(Fraction(e, 4), q) for e in (2, 3, 4, 5, 6, 8, 12) for q in range(5))


def family(*, falls: bool = False, is_steep: bool = False, is_exponential: bool = False) -> tuple[Term, ...]:
    """Return the terms that models are made of, for data of this kind; "wide" is in all of them."""
    terms = {*WIDE, *LEVELS, *(falling() if falls else ())}
    return tuple(sorted({*terms, *(_STEEP if is_steep else ()), *(_EXPONENTIAL if is_exponential else ())}))


def paper() -> tuple[Term, ...]:
    """Return the default space of Shudler et al. (TPDS 2019, section 3.1.3): 26 terms."""
    return PAPER


def wide() -> tuple[Term, ...]:
    """Return the default space with log^2 added: 39 terms."""
    return WIDE


def falling(terms: Iterable[Term] = WIDE) -> tuple[Term, ...]:
    """Return the falling mirror images x^-q log^r x of terms, for strong scaling."""
    return tuple(sorted(Term(0, -t.polynomial, t.logarithmic) for t in terms if t.polynomial))


def ruler(expectation: Term) -> tuple[Term, ...]:
    """Return the space an expectation E spans, like ticks on a ruler (ibid., section 2.3).

    The large ticks are the exponents between 1 and E^2 in E's own class, halved twice; each is
    multiplied by powers of the next lower class; what exceeds E^2 is left out.

    Parameters
    ----------
    expectation : Term
        E's leading term. For logarithms and constants, whose own ruler would hold only powers of
        the logarithm, the default space is used.

    Returns
    -------
    tuple of Term
        Sorted; E = p gives 17 terms, E = p log p gives 27. E is always among them.
    """
    e, q, r = expectation
    if expectation.growth_class == 1:
        return tuple(sorted({*PAPER, expectation}))
    if expectation.growth_class == 2:
        terms = {Term(0, tick, low) for tick in _ticks(q) for low in _lower(r)}
    else:
        terms = {Term(tick, low, log) for tick in _ticks(e) for low in _lower(q) for log in {Fraction(0), r}}
    edge = expectation.power(2)
    low_end, high_end = min(CONSTANT, edge), max(CONSTANT, edge)
    inside = {t for t in terms if low_end <= t <= high_end}
    return tuple(sorted({*inside, CONSTANT, expectation}))


def _ticks(leading: Fraction) -> set[Fraction]:
    """Return 0, the leading exponent and its double, with the intervals halved."""
    ticks = [Fraction(0), leading, 2 * leading]
    for _ in range(_STEPS):
        middles = [(a + b) / 2 for a, b in pairwise(ticks)]
        ticks = sorted({*ticks, *middles}, key=lambda t: abs(t))
    return set(ticks)


def _lower(exponent: Fraction) -> set[Fraction]:
    """Return the exponents of the next lower class: 0, 1 and E's own with its two neighbours."""
    lowest = min(Fraction(0), exponent)
    candidates = {Fraction(0), Fraction(1), exponent - 1, exponent, exponent + 1}
    return {c for c in candidates if c >= lowest}


def space_for(
    space: str | Iterable[Term] | None, expectation: Term | None, *, falls: bool = False
) -> tuple[Term, ...]:
    """Return the terms to choose from.

    Parameters
    ----------
    space : {"paper", "wide", "ruler", "joined"} or iterable of Term, optional
        By default "joined", the expectation's ruler with the wide space, or "wide" without an
        expectation.  An expectation is always added to its space.
    expectation : Term, optional
        E's leading term.
    falls : bool
        Whether the data fall: their mirror images are then added to a named space.

    Raises
    ------
    ExpectationError
        For a name that is not known, or a ruler without an expectation.
    """
    if space is None:
        space = "wide" if expectation is None else "joined"
    if not isinstance(space, str):
        chosen = {Term(*t) for t in space}
        falls = False
    elif space in ("ruler", "joined"):
        if expectation is None:
            raise ExpectationError(f'space "{space}" is built from an expectation, and none is given')
        chosen = set(ruler(expectation)) | (set(WIDE) if space == "joined" else set())
        falls = falls and space == "joined"
    elif space in ("paper", "wide"):
        chosen = set(PAPER if space == "paper" else WIDE)
    else:
        raise ExpectationError(
            f'search space {echo(space)} is not known; known: "paper", "wide", "ruler", "joined", '
            "or a list of terms"
        )
    if falls or (expectation is not None and expectation.is_falling and space != "ruler"):
        chosen |= set(falling(t for t in chosen if t.polynomial > 0 and not t.exponential))
    if expectation is not None:
        chosen.add(Term(*expectation))
    return tuple(sorted(chosen | {CONSTANT}))
