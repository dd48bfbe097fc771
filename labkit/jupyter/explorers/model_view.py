"""The model explorer's content, without a widget: points that can be moved, and their fit and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.html import badge, escape, properties, quantity
from labkit.plot.scaling_figure import Curves, curves_of
from labkit.scaling import Model, Samples, Term, Verdict, judge

__all__ = ["EXAMPLES", "Fitted", "fitted", "growth_in_words"]

Floats = NDArray[np.float64]
_P = np.array([16, 32, 64, 128, 256, 512, 1024], np.float64)

#: name -> (ranks, seconds, what one might expect)
EXAMPLES: dict[str, tuple[Floats, Floats, str]] = {
    "p log p": (_P, 2e-7 * _P * np.log2(_P), "p log p"),
    "a start-up, then p": (_P, 4e-5 + 3e-7 * _P, "p"),
    "log p, one outlier": (_P, 1e-5 * np.log2(_P) * np.array([1, 1, 1, 1.9, 1, 1, 1]), "log p"),
    "square root of p": (_P, 2e-5 * np.sqrt(_P), "p"),
    "nothing grows": (_P, np.full(_P.size, 3e-5), "1"),
    "strong scaling": (_P, 8e-3 / _P + 2e-6 * np.log2(_P), "1/p"),
}


@dataclass(frozen=True)
class Fitted:
    """Points and what they come to.

    Attributes
    ----------
    x, y : arrays of float
    verdict : Verdict
    curves : Curves
        Lines and band of the figure.
    """

    x: Floats
    y: Floats
    verdict: Verdict
    curves: Curves

    @property
    def model(self) -> Model | None:
        """The best model; None of too few values."""
        return self.verdict.model

    def html(self) -> str:
        """Return verdict and model, in words and numbers."""
        parts = [f"<p>{badge(self.verdict.match)}</p>"]
        if self.model is not None:
            rows = [("it grows", growth_in_words(self.model, self.x[-1], self.verdict.unit))]
            name = "nearest curve" if self.model.is_nearest else "model"
            rows.append((name, escape(self.model.in_unit(self.verdict.unit))))
            rows.append(("largest error", f"{self.model.error:.1%}"))
            shown = ", ".join(one.term.pretty() for one in self.verdict.plausible[:6])
            rows.append(
                (
                    "not rejected",
                    escape(shown or "no model of the family"),
                )
            )
            parts.append(properties(rows))
        return "".join(parts)

    def reading(self) -> str:
        """Say in a sentence what the points come to."""
        return self.verdict.sentence(Term.pretty)


def fitted(x: Sequence[float] | Floats, y: Sequence[float] | Floats, expectation: str, unit: str) -> Fitted:
    """Fit and judge points.

    Parameters
    ----------
    x, y : sequences of float
        Above 0.
    expectation : str
        In big-O notation.
    unit : str
        Of y.

    Raises
    ------
    DataError
        Points that are not above 0.
    ExpectationError
        An expectation that cannot be read.
    """
    at, values = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if at.shape != values.shape or not (np.isfinite(values) & (values > 0)).all():
        raise DataError("every point needs a value above 0; drag it back, or press reset")
    verdict = judge(at, values, expectation, unit=unit)
    samples = verdict.samples or Samples(at, tuple(np.array([v]) for v in values))
    return Fitted(at, values, verdict, curves_of(verdict, verdict.model, samples))


def growth_in_words(model: Model, largest: float, unit: str) -> str:
    """Say what a term means.

    Examples
    --------
    >>> import labkit as lk
    >>> p = np.array([8, 16, 32, 64, 128.0])
    >>> growth_in_words(lk.fit(p, p * np.log2(p)), 128, "")
    'a little faster than in proportion to p: with p times a logarithm; from 128 to 256, 2.29 times as much'
    """
    term = model.term
    if term.is_constant:
        return f"not at all: {quantity(model.constant, unit)} whatever {term.symbol} is"
    first, last = (float(v) for v in model.predict(np.array([largest, 2 * largest])))
    step = f"from {largest:g} to {2 * largest:g}, {last / first:.3g} times as much"
    return f"{_how(term)}; {step}"


#: exponent -> how a power is called
_NAMED = {
    0.5: "with the root of",
    1.0: "in proportion to",
    2.0: "with the square of",
    3.0: "with the cube of",
    -1.0: "in inverse proportion to",
}


def _exponent(value: float) -> str:
    """Write 0.6666... as 2/3."""
    near = Fraction(value).limit_denominator(12)
    return str(near) if abs(float(near) - value) < 1e-9 else f"{value:g}"


def _how(term: Term) -> str:
    p, power, logs = term.symbol, float(term.polynomial), float(term.logarithmic)
    if term.exponential != 0:
        return f"exponentially with {p}" if term.exponential > 0 else f"and falls exponentially with {p}"
    if power == 0:
        how = "with the logarithm" if logs == 1 else f"with the logarithm to the power {_exponent(logs)}"
        return f"slowly: {how} of {p}" if logs > 0 else f"and falls slowly: {how} of {p}"
    base = f"{_NAMED[power]} {p}" if power in _NAMED else f"with {p} to the power {_exponent(power)}"
    if power < 0:
        base = f"less and less: {base}"
    if logs == 0:
        return base
    times = "a logarithm" if logs == 1 else f"its logarithm to the power {_exponent(logs)}"
    if power == 1 and logs > 0:
        return f"a little faster than in proportion to {p}: with {p} times {times}"
    return f"{base}, {'times' if logs > 0 else 'divided by'} {times if logs > 0 else times.replace('-', '')}"
