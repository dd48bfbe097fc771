"""A verdict: whether the measured growth matches the expectation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from labkit import html as markup
from labkit.scaling.deviation import Deviation, outcome
from labkit.scaling.drift import Drift
from labkit.scaling.expectation import Expectation
from labkit.scaling.model import Model
from labkit.scaling.samples import Samples
from labkit.scaling.term import Term
from labkit.scaling.words import growth, leads, pace, ratio

__all__ = ["Verdict"]

_SHOWN = 8  # terms in a list
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
        than the limit allows; "none", the growth is faster than promised, or follows no single law that would
        keep the promise; "undecided".
    expectation : Expectation
        What was expected.
    model : Model or None
        The best model G; None when too few values were measured. Where `seen` is not empty the data
        reject it, and it is only the nearest curve.
    divergence : Term or None
        G/E: "1" when they agree, "p^0.25" when the measured growth is faster by that much; None where there
        is no law to divide.
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
        What the data do where they follow no single law: "rises by 83 % and levels off"; else empty.
    drift : Drift or None
        How the data drift from the expectation over the range, where that decided the match: no law alone
        describes them, yet the bound is kept, or broken, at every step.
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
    drift: Drift | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether the expectation holds: exactly, approximately, or as a bound that is not tight."""
        return self.match in ("exact", "approximate", "bound")

    def __bool__(self) -> bool:
        """Return `ok`, so that ``assert study.expect("p log p")`` is a test."""
        return self.ok

    @property
    def growth(self) -> str:
        """The measured growth for a table: a term, or "no single law"."""
        return "no single law" if self.seen else str(self.model.term) if self.model else "?"

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
        e, g = self.expectation.term, self.model.term
        expected = "constancy" if e.is_constant else f"O({write(e)})"
        if self.match == "undecided":
            if self.seen:
                return f"Undecided: {self.reasons[0]}; {expected} is expected."
            return f"Undecided: the best model {growth(g, write)}, {expected} is expected; {self.reasons[0]}."
        limit = write(self.deviation.term)
        if self.seen and self.match == "bound":
            how = f"{ratio(self.drift, e, write)}, within the limit {limit}" if self.drift else (
                f"at no step is {expected} exceeded"
            )  # fmt: skip
            return f"The bound holds in this range: {how}. No single law describes the data: it {self.seen}."
        if self.seen:
            how = f", but {ratio(self.drift, e, write)}, beyond the limit {limit}" if self.drift else ""
            return f"No single law in this range: it {self.seen}; {expected} is expected{how}."
        if self.drift:
            return (
                f"Approximate match in this range: {ratio(self.drift, e, write)}, within the limit {limit}. "
                f"Several sums describe the data, among them one led by {write(g)}."
            )
        how, tail = self._how(write), leads(self.model, write)
        if self.match == "exact":
            return f"Exact match: it {how}, as expected{tail}."
        step = pace(g, e, write)
        if self.match == "approximate":
            return f"Approximate match: it {how}, {step}, within the limit {limit}{tail}."
        if self.match == "bound":
            return f"The bound holds, it is not tight: it {how}, {step}{tail}."
        return f"No match: it {how}, {step}, beyond the limit {limit}{tail}."

    def _how(self, write: Callable[[Term], str]) -> str:
        model = self.model
        assert model is not None
        if model.term.is_constant and model.others:
            share = float(model.y[-1] / model.constant)
            return f"tends to a constant, of which {share:.0%} is reached at the last value"
        return growth(model.term, write)

    @property
    def evidence(self) -> str:
        """What the data allow beside the best model, in one sentence."""
        if self.model is None or not self.test:
            return ""
        others = _some([str(m.term) for m in self.plausible])
        own = "does not reject" if self.is_plausible else "rejects"
        return f"The test ({self.test}) {own} the expectation; not rejected: {others}."

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
            "largest_error": g.error if g else None,
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
            lines += [
                f"  expectation  {self.expectation}",
                f"  {'nearest' if self.seen else 'model'}{'      ' if self.seen else '        '}"
                f"{self.model}: {self.model.in_unit(self.unit)}",
                *([] if self.divergence is None else [f"  divergence   O({self.divergence})"]),
                f"  limit        {self.deviation} ({_ORIGINS[self.deviation.origin]})",
                f"  fit          adjusted R2 {r2}, largest error {self.model.error:.2%}",
                f"  {self.evidence}",
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
                    "Nearest (rejected)" if self.seen else "Measured",
                    f"O({self.model.term.html()}) &nbsp; {markup.escape(self.model.in_unit(self.unit))}",
                ),
                *([] if self.divergence is None else [("Divergence", f"O({self.divergence.html()})")]),
                ("Limit", f"{self.deviation.term.html()}, {_ORIGINS[self.deviation.origin]}"),
                ("Fit", f"adjusted R² {r2}, largest error {self.model.error:.2%}"),
                ("Not rejected", f'{terms}<br><small style="opacity:.75">{markup.escape(self.test)}</small>'),
            ]
        rows += [("Note", markup.escape(n)) for n in (*self.reasons[1:], *self.notes)]
        title = f"{markup.badge(self.match)} &nbsp;{markup.escape(self.phase or self.metric)}"
        sentence = markup.escape(self.sentence(Term.pretty))
        return markup.card(title, f"<div>{sentence}</div>{markup.properties(rows)}")


def _some(terms: list[str]) -> str:
    """Return the first terms as a list, with the number of the rest."""
    rest = f" and {len(terms) - _SHOWN} more" if len(terms) > _SHOWN else ""
    return ", ".join(terms[:_SHOWN]) + rest if terms else "none of the terms"
