"""The words of verdicts: growth, pace and what leads where, right for rising, constant and falling terms."""

from __future__ import annotations

from collections.abc import Callable

from labkit.html import number
from labkit.scaling.drift import Drift
from labkit.scaling.model import Model
from labkit.scaling.term import Term

__all__ = ["growth", "hides", "leads", "pace", "ratio"]

Write = Callable[[Term], str]


def growth(term: Term, write: Write = str) -> str:
    """Return what a quantity with this leading term does: "stays constant", "grows as p", "falls as 1/p".

    Examples
    --------
    >>> growth(Term(0, -1)), growth(Term()), growth(Term(0, 1))
    ('falls as 1/p', 'stays constant', 'grows as p')
    """
    if term.is_constant:
        return "stays constant"
    return f"{'falls' if term.is_falling else 'grows'} as {write(term)}"


def pace(term: Term, expected: Term, write: Write = str) -> str:
    """Return how the measured growth compares with the expected one, to follow `growth`.

    Where both rise or both fall, "faster" and "slower" are meant in that direction, with the factor;
    otherwise it is said what was expected instead.

    Examples
    --------
    >>> pace(Term(0, 2), Term(0, 1)), pace(Term(0, "-1/2"), Term(0, -1))
    ('faster than p by p', 'slower than 1/p by sqrt(p)')
    >>> pace(Term(), Term(0, -1)), pace(Term(0, -1), Term())
    ('where it should fall as 1/p', 'where it might stay constant')
    """
    if term == expected:
        return "as expected"
    is_alarm = term > expected
    same = (term.is_falling, term.is_constant) == (expected.is_falling, expected.is_constant)
    if same:
        factor = term.over(expected).named(term.symbol)
        factor = factor if is_alarm else factor.power(-1)
        # a time that falls less than promised is larger, and slower in its fall
        quicker = is_alarm != term.is_falling
        return f"{'faster' if quicker else 'slower'} than {write(expected)} by {write(factor)}"
    verb = "stay" if expected.is_constant else "fall" if expected.is_falling else "grow"
    object_ = "constant" if expected.is_constant else f"as {write(expected)}"
    return f"where it {'should' if is_alarm else 'might'} {verb} {object_}"


def ratio(drift: Drift, expected: Term, write: Write = str) -> str:
    """Return how data move beside the expectation, right for any direction.

    From one value to the next where every step keeps to the limit, else over the later half of the range.

    Examples
    --------
    >>> ratio(Drift(-0.125, 0.1, 0.0, 0.0, 0.02, 0.05, 0.01, 0.1, 0.5, 0.03, False), Term(0, 0, 2))
    'from value to value, its ratio to log^2 p goes as p^-0.12 to p^0.10'
    """
    subject = "it" if expected.is_constant else f"its ratio to {write(expected)}"
    p = expected.symbol
    if max(drift.highest, -drift.lowest) <= drift.limit:
        return f"from value to value, {subject} goes as {p}^{drift.lowest:.2f} to {p}^{drift.highest:.2f}"
    return f"over the later half, {subject} goes as {p}^{drift.late:.2f}"


def leads(model: Model, write: Write = str) -> str:
    """Return which summand leads up to where, as a clause after a semicolon; empty where nothing is to say.

    Said of every sum, and of c + a f where c hides f in the whole range or outlasts a falling f.
    """
    takeover = model.takeover
    if takeover is None:
        if not model.others or model.term.is_constant:
            return ""
        return f"; {write(model.term)} leads in the whole range"
    last = float(model.x[-1])
    if not model.others and not model.term.is_falling and takeover.at <= last:
        return ""
    if takeover.at > 1e6 * last and not model.others:
        return ""
    first, then = _named(takeover.now, write), _named(takeover.later, write)
    place = f"{model.parameter} = {_rounded(takeover.at)}"
    return f"; {first} leads up to about {place}, {then} from there on"


def hides(model: Model) -> str:
    """Return which summand is the largest and up to where it hides the one that wins in the end."""
    takeover, end = model.takeover, model.parameter
    if takeover is None:
        most = max(model.parts, key=lambda p: float(p(model.x[-1])))
        text = f"{_named(most.term, Term.pretty)} is the largest part in the whole range"
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
