"""The words of verdicts: growth, pace and which summand dominates where."""

from __future__ import annotations

import math
from collections.abc import Callable

from labkit.html import number, quantity
from labkit.scaling.model import Model
from labkit.scaling.term import Term

__all__ = ["course", "dominance", "growth", "hides", "pace"]

Write = Callable[[Term], str]

#: a takeover farther beyond the data than this is not worth a clause
_FAR = 1e6


def growth(term: Term, write: Write = str) -> str:
    """Return what a quantity with this leading term does: "is constant", "grows like p", "falls like 1/p".

    Examples
    --------
    >>> growth(Term(0, -1)), growth(Term()), growth(Term(0, 1))
    ('falls like 1/p', 'is constant', 'grows like p')
    """
    if term.is_constant:
        return "is constant"
    return f"{'falls' if term.is_falling else 'grows'} like {write(term)}"


def course(model: Model, write: Write = str) -> str:
    """Return what a model does, with its level where it has one.

    Examples
    --------
    >>> from labkit.scaling import fit
    >>> course(fit([16, 32, 64, 128, 256], [6.08, 6.40, 6.14, 6.10, 6.05]))
    'is constant (within 4 %)'
    >>> course(fit([16, 32, 64, 128, 256], [9.0, 9.5, 9.75, 9.875, 9.9375]))
    'levels off at 10, of which 99 % is reached at p = 256'
    """
    if not model.term.is_constant:
        first, last = model.predict(model.x[[0, -1]])
        falls_so_far = last < first and not model.term.is_falling
        return (
            f"falls so far and {growth(model.term, write)} in the end"
            if falls_so_far
            else growth(model.term, write)
        )
    if not model.others:
        # rounded up: no point is farther away than is said
        return f"is constant (within {_percent(model.error)})" if model.error > 5e-7 else "is constant"
    last = float(model.x[-1])
    share = float(model.predict(last)) / model.constant
    level = quantity(model.constant, model.unit, 3)
    at = f"{model.parameter} = {number(last)}"
    return f"levels off at {level}, of which {100 * share:.0f} % is reached at {at}"


def pace(term: Term, expected: Term, write: Write = str) -> str:
    """Return how the measured growth compares with the expected one, to follow `growth`.

    Where both rise or both fall, "faster" and "slower" are meant in that direction, with the factor;
    otherwise it is said what was expected instead.

    Examples
    --------
    >>> pace(Term(0, 2), Term(0, 1)), pace(Term(0, "-1/2"), Term(0, -1))
    ('faster than p by p', 'slower than 1/p by sqrt(p)')
    >>> pace(Term(), Term(0, -1)), pace(Term(0, -1), Term())
    ('where it should fall like 1/p', 'where it may be constant')
    """
    if term == expected:
        return "as expected"
    is_alarm = term > expected
    same = (term.is_falling, term.is_constant) == (expected.is_falling, expected.is_constant)
    if same:
        factor = term.over(expected).named(term.symbol)
        factor = factor if is_alarm else factor.power(-1)
        # a time that falls less than expected is larger, and slower in its fall
        quicker = is_alarm != term.is_falling
        return f"{'faster' if quicker else 'slower'} than {write(expected)} by {write(factor)}"
    verb = (
        "be constant"
        if expected.is_constant
        else f"{'fall' if expected.is_falling else 'grow'} like {write(expected)}"
    )
    return f"where it {'should' if is_alarm else 'may'} {verb}"


def dominance(model: Model, write: Write = str) -> str:
    """Return which summand dominates up to where, as a clause after a semicolon; empty where it is plain.

    Given for every sum, and for c + a f where c is larger than f in the whole range or outlasts a falling f.
    """
    if model.before is not None or (model.term.is_constant and model.others):
        return ""
    takeover, last = model.takeover, float(model.x[-1])
    if takeover is None:
        if not model.others or model.dominant != model.term:
            return ""
        return f"; {write(model.term)} dominates in the whole range"
    if not model.others and not model.term.is_falling and takeover.at <= last:
        return ""
    if takeover.at > _FAR * last and not model.others:
        return ""
    first, then = _named(takeover.now, write), _named(takeover.later, write)
    return f"; {first} dominates up to about {model.parameter} = {_rounded(takeover.at)}, {then} beyond"


def hides(model: Model) -> str:
    """Return which summand is the largest and up to where it hides the one that wins in the end."""
    takeover, end = model.takeover, model.parameter
    if takeover is None:
        text = f"{_named(model.dominant, Term.pretty)} is the largest part at {end} = {number(model.x[-1])}"
        if model.dominant == max(p.term for p in model.parts):
            text = f"{_named(model.dominant, Term.pretty)} is the largest part in the whole range"
    else:
        now, later = (_named(t, Term.pretty) for t in (takeover.now, takeover.later))
        place = f"{end} = {_rounded(takeover.at)}"
        text = f"{now} hides {later} up to about {place}: from there on {later} is the largest part"
    return text[0].upper() + text[1:] if text.startswith("the ") else text


def _named(term: Term, write: Write) -> str:
    return "the constant part" if term.is_constant else write(term)


def _rounded(value: float) -> str:
    """Return two digits: 1900, 64, 120,000."""
    return number(float(f"{value:.2g}"))


def _percent(share: float) -> str:
    """Return a share rounded up to one or two digits: 4 %, 0.07 %."""
    percent = 100 * share
    digits = max(0, -math.floor(math.log10(percent))) if percent else 0
    return f"{math.ceil(percent * 10**digits - 1e-9) / 10**digits:g} %"
