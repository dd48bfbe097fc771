"""A verdict: whether the measured growth matches the expectation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from labkit import html as markup
from labkit.scaling.deviation import Deviation, outcome
from labkit.scaling.expectation import Expectation
from labkit.scaling.model import Model
from labkit.scaling.samples import Samples
from labkit.scaling.term import Term
from labkit.scaling.words import course, dominance, pace

__all__ = ["Verdict"]

_SHOWN = 8  # terms in a list
_NOT_VISIBLE = 20.0  # percent of a value up to which what could hide is called not visible
_ORIGINS = {
    "default": "the default limit",
    "strict": "the expectation's leading exponent halved",
    "given": "the limit given",
}


@dataclass(frozen=True, eq=False)
class Verdict:
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
    hidden : float or None
        Of a bound that is not tight: the largest share of the last value that the expectation may have in a
        curve that describes the data about as well.
    tolerance : float
        How far a model may miss a point that it describes.
    test, aggregate : str
        How the data were held against the curves, and how repetitions were summed up.
    metric, unit, phase : str
        What was measured, for print.
    samples : Samples or None
        The measurements, for figures.
    """

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
        if self.model is None:
            return "?"
        if self.model.is_nearest:
            return f"{self.model.term}?"
        return "levels off" if self.model.term.is_constant and self.model.others else str(self.model.term)

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
            return f"Undecided: it {found}, {expected} is expected; {self.reasons[0]}."
        step, tail = pace(g, e, write), "" if model.is_nearest else dominance(model, write)
        if self.match == "exact":
            return f"Exact match: it {found}, as expected{tail}."
        if self.match == "approximate":
            inside = "" if g == e else f", within the limit {limit}"
            return f"Approximate match: it {found}, {step}{inside}{tail}."
        if self.match == "bound":
            return f"The bound holds but is not tight: it {found}, {step}{tail}{self._unseen(write)}."
        return f"No match: it {found}, {step}, beyond the limit {limit}{tail}."

    def _course(self, write: Callable[[Term], str]) -> str:
        """What the data do: by the model, or by their shape where none describes them."""
        model = self.model
        assert model is not None
        if model.is_nearest:
            nearest = write(model.term)
            if model.term.is_constant:
                nearest = "a level" if model.others else "a constant"
            fits = f"within {100 * self.tolerance:.3g} %" if self.tolerance else "exactly"
            return (
                f"{self.seen} (no model fits {fits}; the nearest, {nearest}, "
                f"misses a point by {_beyond(100 * model.error, 100 * self.tolerance)} %)"
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
                f"  {name:12} {self.model}: {self.model.in_unit(self.unit)}",
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
        return markup.card(title, f"<div>{sentence}</div>{markup.properties(rows)}")


def _beyond(value: float, limit: float) -> str:
    """Return a value in two digits, or in as many as show that it exceeds the limit."""
    return next((t for d in range(2, 8) if float(t := f"{value:.{d}g}") > limit), f"{value:.8g}")


def _some(terms: list[str]) -> str:
    """Return the first terms as a list, with the number of the rest."""
    rest = f" and {len(terms) - _SHOWN} more" if len(terms) > _SHOWN else ""
    return ", ".join(terms[:_SHOWN]) + rest if terms else "none of the terms"
