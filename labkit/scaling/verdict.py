"""A verdict: whether the measured growth matches the expectation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from labkit.errors import ExpectationError, SuggestsNames
from labkit.scaling.expectation import Expectation, read_term
from labkit.scaling.model import Model
from labkit.scaling.samples import Samples
from labkit.scaling.term import CONSTANT, Term
from labkit.text import html as markup
from labkit.text.html import number, quantity

__all__ = [
    "Deviation",
    "Verdict",
    "beyond",
    "course",
    "deviation_for",
    "growth",
    "hides",
    "match",
    "outcome",
    "pace",
]


_SHOWN = 8  # terms in a list
_NOT_VISIBLE = 20.0  # percent of a value up to which what could hide is called not visible
_ORIGINS = {
    "default": "the default limit",
    "strict": "the expectation's leading exponent halved",
    "given": "the limit given",
}


@dataclass(frozen=True, eq=False)
class Verdict(SuggestsNames):
    """The answer to one expectation; true in a condition when the expectation, an upper bound, holds.

    Attributes
    ----------
    match : str
        "exact"; "approximate", within the limit; "bound", which holds but is not tight: the growth is slower
        than the limit allows; "none", the growth is faster than expected; "undecided".
    expectation : Expectation
        What was expected.
    model : Model or None
        The description G of the data, the same for every expectation; None when too few values were measured.
        Where it `is_nearest`, no model meets every point within the tolerance.
    divergence : Term or None
        G/E: "1" when they agree, "p^0.25" when the measured growth is faster by that much.
    deviation : Deviation
        The limit D: approximate means E/D <= G <= E*D.
    plausible : tuple of Model
        Every model the data do not reject, best first.
    reference : Model or None
        The expectation's own curve, fitted; None when it cannot be fitted (data that go the other way).
    reasons : tuple of str
        Why the verdict is undecided.
    notes : tuple of str
        Assumptions and warnings.
    seen : str
        What the data do where no one model describes them ("rises by 83 % and levels off"), or where they
        change or jump ("changes at p = 256: log p, then p"); else empty.
    compared : str
        How data that no model describes compare with the expectation on the whole; else empty.
    exception : str
        Which values no model describes together with the others: an outlier, or every second one; else empty.
    hidden : float or None
        Of a bound that is not tight: the largest share of the last value that the expectation may have in a
        curve that describes the data about as well.
    tolerance : float
        How far a model may miss a point that it describes.
    test, aggregate : str
        How the data were compared with the curves, and how repetitions were summed up.
    metric, unit, phase : str
        What was measured, for print.
    samples : Samples or None
        The measurements, for figures.
    """

    _INSTEAD = MappingProxyType(
        {
            **dict.fromkeys(("plot", "draw", "show", "figure"), "labkit.plot.scaling(verdict)"),
            **dict.fromkeys(("save", "savefig"), 'labkit.plot.scaling(verdict).save("figure.pdf")'),
            **dict.fromkeys(("text", "words", "summary"), "reading"),
            **dict.fromkeys(("passed", "holds", "is_ok"), "ok"),
            **{
                name: f"model.{name}"
                for name in ("predict", "interval", "formula", "r2_adjusted", "constant")
            },
            **dict.fromkeys(("r2", "r_squared"), "model.r2_adjusted"),
        }
    )

    match: str
    expectation: Expectation
    model: Model | None
    divergence: Term | None
    deviation: Deviation
    plausible: tuple[Model, ...] = ()
    reference: Model | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    test: str = ""
    aggregate: str = "mean"
    metric: str = ""
    unit: str = ""
    phase: str = ""
    samples: Samples | None = field(default=None, repr=False)
    seen: str = ""
    compared: str = ""
    exception: str = ""
    hidden: float | None = None
    tolerance: float = 0.05

    @property
    def ok(self) -> bool:
        """Whether the expectation holds: exactly, approximately, or as a bound that is not tight."""
        return self.match in ("exact", "approximate", "bound")

    def __bool__(self) -> bool:
        """Return `ok`, so that ``assert study.expect("p log p")`` is a test."""
        return self.ok

    @property
    def growth(self) -> str:
        """The measured growth for a table: a term, "levels off", or the nearest term with a question mark."""
        return "?" if self.model is None else self.model.growth

    @property
    def is_plausible(self) -> bool:
        """Whether the data do not reject the expectation itself."""
        return any(m.term == self.expectation.term for m in self.plausible)

    @property
    def is_firm(self) -> bool:
        """Whether every model that the data do not reject would give the same match."""
        others = {outcome(m.term, self.expectation.term, self.deviation.term) for m in self.plausible}
        return bool(others) and others == {self.match}

    @property
    def reading(self) -> str:
        """The verdict in one sentence."""
        return self.sentence(str)

    def sentence(self, write: Callable[[Term], str]) -> str:
        """Return the verdict in one sentence, its terms written by `write`.

        Parameters
        ----------
        write : callable
            Returns the text of a `Term`.

        Returns
        -------
        str
            With a full stop.
        """
        if self.model is None:
            return f"Undecided: {self.reasons[0]}."
        e, g, model = self.expectation.term, self.model.term, self.model
        expected = "constancy" if e.is_constant else f"O({write(e)})"
        limit, found = write(self.deviation.term), self._course(write)
        if self.match == "undecided":
            but = f", but {self.exception}" if self.exception else ""
            return f"Undecided: it {found}{but}, {expected} is expected{self._scatter}; {self.reasons[0]}."
        step, tail = self.compared or pace(g, e, write), "" if model.is_nearest else dominance(model, write)
        found, jump = (*_JUMP.split(found, 1), "")[:2]  # the growth is compared, not the jump
        tail = (f", and {jump}" if jump else "") + tail + self._scatter
        tail += f"; but {self.exception}" if self.exception else ""
        if self.match == "exact":
            return f"Exact match: it {found}, as expected{tail}."
        if self.match == "approximate":
            is_inside = step != "as expected" and (
                self.compared or match(g, e, self.deviation.term) == "approximate"
            )
            inside = f", within the limit {limit}" if is_inside else ""
            return f"Approximate match: it {found}, {step}{inside}{tail}."
        if self.match == "bound":
            return f"The bound holds but is not tight: it {found}, {step}{tail}{self._unseen(write)}."
        return f"No match: it {found}, {step}, beyond the limit {limit}{tail}."

    @property
    def _scatter(self) -> str:
        """How far points that were measured once are off a model that describes them, as a clause."""
        if self.model is None or self.model.is_nearest or self.model.error <= self.tolerance:
            return ""
        if self.samples is None or self.samples.summary(self.aggregate).freedom:
            return ""
        return f"; points are up to {beyond(100 * self.model.error, 100 * self.tolerance)} % off"

    def _course(self, write: Callable[[Term], str]) -> str:
        """What the data do: by the model, or by their shape where none describes them."""
        model = self.model
        assert model is not None
        if model.is_nearest and not self.exception:
            nearest = write(model.term)
            if model.term.is_constant:
                nearest = "a level" if model.others else "a constant"
            fits = f"within {100 * self.tolerance:.3g} %" if self.tolerance else "exactly"
            return (
                f"{self.seen} (no model fits {fits}; the nearest, {nearest}, "
                f"misses a point by {beyond(100 * model.error, 100 * self.tolerance)} %)"
            )
        return self.seen or course(model, write)

    def _unseen(self, write: Callable[[Term], str]) -> str:
        """How much of the last value the expectation could be, unseen."""
        if self.hidden is None or self.model is None or self.model.before is not None:
            return ""
        p, last = self.expectation.parameter, markup.number(float(self.model.x[-1]))
        e, percent = write(self.expectation.term), float(f"{100 * self.hidden:.2g}")
        if percent <= _NOT_VISIBLE:
            return f"; {e} is not visible up to {p} = {last}: at most {percent:g} % of the value there"
        return f"; up to {percent:g} % of the value at {p} = {last} could be {e}"

    @property
    def evidence(self) -> str:
        """Which growth the data do not reject, in one sentence."""
        if self.model is None or not self.test or not self.plausible:
            return ""
        others = _some([str(m.term) for m in self.plausible])
        own = "do not reject" if self.is_plausible else "reject"
        return f"the data {own} the expectation; not rejected: {others} ({self.test})"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON-able values.

        Returns
        -------
        dict
            What ``labkit judge --json`` prints.
        """
        g = self.model
        exponents = ("exponential", "polynomial", "logarithmic")
        return {
            "match": self.match,
            "expectation": str(self.expectation.term),
            "term": dict(zip(exponents, map(float, g.term), strict=True)) if g else None,
            "growth": str(g.term) if g else None,
            "model": g.formula if g else None,
            "divergence": str(self.divergence) if self.divergence is not None else None,
            "deviation": str(self.deviation),
            "deviation_origin": self.deviation.origin,
            "r2_adjusted": g.r2_adjusted if g else None,
            "error": g.error if g else None,
            "tolerance": self.tolerance,
            "is_described": not g.is_nearest if g else None,
            "dominates": str(g.dominant) if g else None,
            "takes_over_at": g.takeover.at if g and g.takeover else None,
            "hidden": self.hidden,
            "is_plausible": self.is_plausible if g else None,
            "is_firm": self.is_firm if g else None,
            "plausible": [str(m.term) for m in self.plausible],
            "test": self.test,
            "aggregate": self.aggregate,
            "metric": self.metric,
            "phase": self.phase,
            "unit": self.unit,
            "parameter": self.expectation.parameter,
            "values": self.samples.x.tolist() if self.samples else [],
            "seen": self.seen,
            "exception": self.exception,
            "terms": [str(p.term) for p in g.parts] if g else [],
            "reasons": list(self.reasons),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """Print the verdict, its figures and its evidence."""
        lines = [f"{markup.MATCH_SIGNS[self.match]} {self.reading}"]
        if self.model is not None:
            r2 = "-" if self.model.r2_adjusted is None else f"{self.model.r2_adjusted:.4f}"
            name = "nearest" if self.model.is_nearest else "model"
            lines += [
                f"  expectation  {self.expectation}",
                f"  {name:12} O({self.model.term}): {self.model.in_unit(self.unit)}",
                *([] if self.divergence is None else [f"  divergence   O({self.divergence})"]),
                f"  limit        {self.deviation} ({_ORIGINS[self.deviation.origin]})",
                f"  fit          adjusted R2 {r2}, largest error {self.model.error:.2%} "
                f"(tolerance {self.tolerance:.3g})",
                *([f"  evidence     {self.evidence}"] if self.evidence else []),
            ]
        lines += [f"  note: {note}" for note in (*self.reasons[1:], *self.notes)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Print as text: a failed assertion shows it."""
        return str(self)

    def _repr_html_(self) -> str:
        rows = [("Expected", f"O({self.expectation.term.html()})")]
        if self.model is not None:
            r2 = "–" if self.model.r2_adjusted is None else f"{self.model.r2_adjusted:.4f}"
            terms = _some([m.term.html() for m in self.plausible])
            rows += [
                (
                    "Nearest" if self.model.is_nearest else "Measured",
                    f"O({self.model.term.html()}) &nbsp; {markup.escape(self.model.in_unit(self.unit))}",
                ),
                *([] if self.divergence is None else [("Divergence", f"O({self.divergence.html()})")]),
                ("Limit", f"{self.deviation.term.html()}, {_ORIGINS[self.deviation.origin]}"),
                (
                    "Fit",
                    f"adjusted R² {r2}, largest error {self.model.error:.2%} "
                    f"(tolerance {self.tolerance:.3g})",
                ),
                ("Not rejected", f'{terms}<br><small style="opacity:.75">{markup.escape(self.test)}</small>'),
            ]
        rows += [("Note", markup.escape(n)) for n in (*self.reasons[1:], *self.notes)]
        title = f"{markup.badge(self.match)} &nbsp;{markup.escape(self.phase or self.metric)}"
        sentence = markup.escape(self.sentence(Term.pretty))
        return markup.titled_block(title, f"<div>{sentence}</div>{markup.properties(rows)}")


def beyond(value: float, limit: float) -> str:
    """Return a value in two digits, or in as many as show that it exceeds the limit."""
    return next(
        (markup.number(float(t), d) for d in range(2, 8) if float(t := f"{value:.{d}g}") > limit),
        f"{value:.8g}",
    )


def _some(terms: list[str]) -> str:
    """Return the first terms as a list, with the number of the rest."""
    rest = f" and {len(terms) - _SHOWN} more" if len(terms) > _SHOWN else ""
    return ", ".join(terms[:_SHOWN]) + rest if terms else "none of the terms"


# Deviation limits: how far a model may be from its expectation and still match approximately.


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
        raise ExpectationError(f"a deviation limit is at least 1; {term} falls", code="out-of-range")
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


# The sentences of verdicts: growth, pace and which summand dominates where.


Write = Callable[[Term], str]

#: what falls by less than this factor, or by less than its curve misses points, and then rises is not said
#: to fall
_TURN = 1.05
#: before what a piecewise model does apart from its growth
_JUMP = re.compile(r" and (?=drops |jumps |is \S+ (?:\S+ )?(?:higher|lower) )")
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
        grows, values = growth(model.term, write), model.predict(model.x)
        least = int(values.argmin())
        # what the curve does within its errors is not what the data do
        turn = max(_TURN, 1 + model.error)
        if model.term.is_falling or min(values[0] / values[least], model.y[0] / model.y.min()) <= turn:
            return grows
        if values[-1] <= turn * values[least]:
            last = f"{model.parameter} = {number(model.x[-1])}"
            return f"falls to about its least at {last} and {grows} beyond"
        return f"falls up to {model.parameter} = {number(model.x[least])} and {grows} from there on"
    if not model.others:
        # rounded up: no point is farther away than is said
        is_near = model.error > 5e-7 and not model.is_nearest  # an outlier is named apart
        return f"is constant (within {_percent(model.error)})" if is_near else "is constant"
    level = quantity(model.constant, model.unit, 3)
    at = f"{model.parameter} = {number(model.x[-1])}"
    if model.level < 1:
        return f"falls to a level of {level}, which is {100 * model.level:.0f} % of the value at {at}"
    return f"levels off at {level}, of which {100 / model.level:.0f} % is reached at {at}"


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
    return instead(is_alarm, expected, write)


def instead(is_alarm: bool, expected: Term, write: Write = str) -> str:
    """Return what was expected of something that goes another way."""
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
    if any((p.scaled < 0) and (-p(model.x) > model.predict(model.x) / 2).any() for p in model.parts):
        return ""  # what parts cancel dominates nothing
    if takeover is None:
        if not model.others or model.dominant != model.term:
            return ""
        return f"; {write(model.term)} dominates in the whole range"
    if not model.others and not model.term.is_falling and takeover.at <= last:
        return ""
    if takeover.at > _FAR * last and not model.others:
        return ""
    later = next(p for p in model.parts if p.term == takeover.later)
    if takeover.at > last and later(last) < model.error * model.predict(last):
        return ""  # within what the model misses
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
