"""A scaling model c + a f(p), or a sum of such terms, fitted to measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from labkit.checks import check_factor, check_share
from labkit.errors import SuggestsNames
from labkit.scaling.expectation import Basis, Expectation
from labkit.scaling.leastsquares import Fits
from labkit.scaling.posterior import Belief
from labkit.scaling.samples import floats_of
from labkit.scaling.term import CONSTANT, Term
from labkit.text import html as markup

__all__ = ["LEVEL", "Model", "Part", "Takeover"]

Floats = npt.NDArray[np.float64]


#: how far ahead a change of the leading part is looked for, in powers of two
_HORIZON = 60

#: what falls levels off where the constant has this share of the last value
LEVEL = 0.9


class Alternatives(Protocol):
    """Curves that describe the same data."""

    def curves(self, x: npt.ArrayLike, deviation: float) -> Floats:
        """Return the values at x of the curves that miss the data about as much as `deviation`."""
        ...


@dataclass(frozen=True, eq=False)
class Part:
    """One summand of a model in addition to its leading term.

    `term`: Its growth.
    """

    term: Term
    basis: Basis = field(repr=False)
    scaled: float = field(repr=False)
    log_scale: float = field(repr=False)

    @property
    def coefficient(self) -> float:
        """The number in front."""
        if not self.scaled:
            return 0.0
        return float(np.copysign(np.exp2(np.log2(abs(self.scaled)) - self.log_scale), self.scaled))

    def __call__(self, x: npt.ArrayLike) -> Floats:
        """Return the summand's values at x."""
        with np.errstate(over="ignore"):
            return np.asarray(self.scaled * np.exp2(self.basis.log2(x) - self.log_scale), dtype=np.float64)


@dataclass(frozen=True)
class Takeover:
    """Which summand is the largest at the end of the range, and from where on the leading term is.

    `now`, `later`: The largest summand at the largest measured value, and the one that wins in the end.
    `at`: The value of the parameter from which on the second is the larger.
    """

    now: Term
    later: Term
    at: float


@dataclass(frozen=True, eq=False)
class Model(SuggestsNames):
    """c + a f(x), fitted by relative least squares; with further, slower terms where the data carry them.

    Attributes
    ----------
    term : Term
        The exponents (exponential, polynomial, logarithmic) of the leading term; 1 where the model levels
        off.
    constant : float
        c, in the unit of the measurements, of either sign.
    others : tuple of Part
        Summands in addition to the leading one.
    r2_adjusted : float or None
        Adjusted coefficient of determination of the weighted fit; None for constants.
    error : float
        Largest relative distance between a point and the curve.
    cross_validation : float
        Root mean square of the relative leave-one-out errors.
    x, y : ndarray, shape (n,)
        The points the model was fitted to.
    unit : str
        The unit of y, for print.
    is_nearest : bool
        Whether no model describes the data within the tolerance, so that this is only the nearest curve.
    sse, free : float, int
        The sum of squared relative errors, and the numbers that were fitted.
    belief, rivals : Belief or None, Alternatives or None
        What `interval` is made of: the weights of all terms, and the curves that describe the data as well.
    before, since : Model or None, float or None
        What describes the data below `since`, where they change or step there.
    """

    _INSTEAD = MappingProxyType(
        {
            **dict.fromkeys(("plot", "draw", "show", "figure"), "labkit.plot.scaling(model)"),
            **dict.fromkeys(("r2", "r_squared", "adjusted_r2", "rsquared"), "r2_adjusted"),
            **dict.fromkeys(("coefficients", "params"), "coefficient, constant and others, or formula"),
            **dict.fromkeys(("equation", "expression"), "formula"),
            **dict.fromkeys(("extrapolate", "evaluate"), "predict(x), or interval(x)"),
            **dict.fromkeys(("expect", "judge", "verdict"), 'labkit.judge(x, y, "p log p")'),
        }
    )

    term: Term
    constant: float
    r2_adjusted: float | None
    error: float
    cross_validation: float
    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    sse: float = field(repr=False)
    free: int = field(repr=False)
    _basis: Basis = field(repr=False)
    _scaled: float = field(repr=False)
    _log_scale: float = field(repr=False)
    unit: str = ""
    others: tuple[Part, ...] = ()
    belief: Belief | None = field(default=None, repr=False)
    rivals: Alternatives | None = field(default=None, repr=False)
    is_nearest: bool = False
    before: Model | None = field(default=None, repr=False)
    since: float | None = None

    @classmethod
    def from_fits(
        cls,
        fits: Fits,
        row: int,
        k: int,
        flat: int,
        basis: Basis,
        log_scale: float,
        x: Floats,
        y: Floats,
        count: float | None = None,
    ) -> Model:
        """Pick fit k of data set `row`; `flat` is the constant's index, `count` how much was measured.

        Parameters
        ----------
        fits : Fits
            Of several data sets.
        row, k : int
            The data set, and the fit.
        flat : int
            Index of the constant.
        basis : Basis
            Of the fit's term.
        log_scale : float
            Binary logarithm of the term's scale.
        x, y : ndarray, shape (n,)
            The points.
        count : float, optional
            How many measurements they stand for; default: n.

        Returns
        -------
        Model
            Of one term.
        """
        own = Fits(*(getattr(fits, f.name)[[row]] for f in fields(fits)))
        bases, scales = [basis] * (k + 1), np.full(k + 1, log_scale)
        return next(cls.each_of(own, [k], flat, bases, scales, x, [y], count or x.size, [None]))

    @classmethod
    def each_of(
        cls,
        fits: Fits,
        chosen: Sequence[int],
        flat: int,
        bases: Sequence[Basis],
        log_scales: Floats,
        x: Floats,
        points: Sequence[Floats],
        count: float,
        beliefs: Sequence[Belief | None],
        unit: str = "",
    ) -> Iterator[Model]:
        """Pick fit `chosen[i]` of each data set i; `flat` is the constant, `count` how much was measured.

        Parameters
        ----------
        fits : Fits
            Of several data sets over the same values.
        chosen : sequence of int
            The fit of each.
        flat : int
            Index of the constant.
        bases : sequence of Basis
            Of all fits.
        log_scales : ndarray, shape (fits,)
            Binary logarithms of the terms' scales.
        x : ndarray, shape (n,)
            Values of the parameter.
        points : sequence of ndarray, shape (n,)
            The measurements of each data set.
        count : float
            How many measurements the points stand for.
        beliefs : sequence of Belief or None
            Of each data set, for `interval`.
        unit : str
            Of the measurements.

        Yields
        ------
        Model
            One for each data set.
        """
        n, rows = x.size, np.arange(len(points))
        at = (rows, np.asarray(chosen))
        columns = (
            np.asarray(chosen),
            fits.constant[at],
            fits.worst[at],
            np.sqrt(fits.press[at] / count),
            fits.sse[at],
            fits.free[at],
            fits.coefficient[at],
            log_scales[at[1]],
            fits.sse[rows, flat],
        )
        for y, belief, k, constant, worst, validation, sse, free, scaled, log_scale, total in zip(
            points, beliefs, *(column.tolist() for column in columns), strict=True
        ):
            basis = bases[k]
            term = basis.term if isinstance(basis, Expectation) else basis
            assert isinstance(term, Term)
            r2 = None if k == flat or total == 0 else 1 - (sse / (n - 2)) / (total / (n - 1))
            yield cls(
                term, constant, r2, worst, validation, x, y, sse, free, basis, scaled, log_scale,
                unit, (), belief,
            )  # fmt: skip

    @property
    def parameter(self) -> str:
        """The symbol of the parameter."""
        return self.term.symbol

    @property
    def coefficient(self) -> float:
        """The a of c + a f(x); 0 for a constant."""
        return self._leading.coefficient

    def predict(self, x: npt.ArrayLike) -> Floats:
        """Return the model's values.

        Parameters
        ----------
        x : array_like, any shape
            Values of the parameter, > 0.

        Returns
        -------
        ndarray
            Same shape, in the unit of the measurements.

        Raises
        ------
        DataError
            x is no number.
        """
        x = floats_of("x", x)
        own = np.asarray(
            self.constant + sum(part(x) for part in (*self.others, self._leading)), dtype=np.float64
        )
        if self.before is None or self.since is None:
            return own
        return np.where(x < self.since, self.before.predict(x), own)

    def times(self, factor: float) -> Model:
        """Return the model multiplied by a factor.

        Parameters
        ----------
        factor : float
            Above 0.

        Returns
        -------
        Model
            Its constant and every coefficient multiplied.

        Raises
        ------
        DataError
            The factor is not a finite number above 0.
        """
        check_factor("factor", factor)
        others = tuple(replace(p, scaled=factor * p.scaled) for p in self.others)
        return replace(self, constant=factor * self.constant, others=others, _scaled=factor * self._scaled)

    @property
    def _leading(self) -> Part:
        return Part(self.term, self._basis, self._scaled, self._log_scale)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All summands but zeros: the constant, the slower terms and the leading one, in this order."""
        constant = Part(CONSTANT.named(self.parameter), CONSTANT, self.constant, 0.0)
        return tuple(p for p in (constant, *self.others, self._leading) if p.scaled)

    @property
    def growth(self) -> str:
        """The growth for a table: a term, "levels off", or the nearest term with a question mark."""
        if self.is_nearest:
            return f"{self.term}?"
        return "levels off" if self.term.is_constant and self.others else str(self.term)

    @property
    def level(self) -> float:
        """The constant's share of the model at the largest measured value."""
        return self.constant / float(self.predict(self.x[-1]))

    def leveled(self) -> Model:
        """Return the model as one that levels off, where it falls and little but the constant is left.

        Returns
        -------
        Model
            The same curve; its growth is 1 where the constant is nearly all of the last value.
        """
        if not (self.term.is_falling and self._scaled > 0 and self.level >= LEVEL):
            return self
        flat = CONSTANT.named(self.parameter)
        others = (*self.others, self._leading)
        return replace(self, term=flat, others=others, _basis=flat, _scaled=0.0, _log_scale=0.0)

    @property
    def dominant(self) -> Term:
        """The largest summand at the largest measured value."""
        return max(self.parts, key=lambda p: float(p(self.x[-1]))).term

    @property
    def takeover(self) -> Takeover | None:
        """Where the summand that wins in the end becomes the largest.

        None where it is the largest at every measured value, or at no value up to 2^60 times the largest.
        Of models whose leading term falls, a constant wins in the end; what is below 0 never does.
        """
        parts = [p for p in self.parts if p.scaled > 0]
        if len(parts) < 2:
            return None
        last = float(self.x[-1])
        now = max(parts, key=lambda p: float(p(last)))
        later = max(parts, key=lambda p: p.term)
        if now is later:
            at = np.exp2(np.linspace(np.log2(self.x[0]), np.log2(last), 400))
        else:
            at = last * np.exp2(np.linspace(0, _HORIZON, 4000))
        rest = np.max([p(at) for p in parts if p is not later], axis=0)
        behind = np.flatnonzero(later(at) < rest)
        if not behind.size or behind[-1] + 1 == at.size:
            return None
        before = max((p for p in parts if p is not later), key=lambda p: float(p(at[behind[-1]])))
        return Takeover(before.term, later.term, float(at[behind[-1] + 1]))

    def interval(self, x: npt.ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the interval that holds the true curve at x with this confidence.

        Of repeated measurements it is taken over all terms, each with its weight.  Data without noise have
        no probabilities: there it holds the confidence interval of this curve and every curve that
        describes the data about as well, sums of two terms among them.

        Parameters
        ----------
        x : array_like, any shape
            Values of the parameter.
        level : float
            The confidence.

        Returns
        -------
        low, high : ndarray
            Same shape as x; low is at least 0.

        Raises
        ------
        DataError
            x is no number, or the level is not between 0 and 1.
        """
        check_share("level", level)
        middle, at = self.predict(x), floats_of("x", x)
        if self.belief is not None:
            low, high = self.belief.quantiles(at, [(1 - level) / 2, (1 + level) / 2])
            return np.minimum(low, middle), np.maximum(high, middle)
        parts = self.parts
        design = np.stack([p(self.x) for p in parts], axis=1) / self.y[:, None]
        freedom = max(self.x.size - design.shape[1], 1)
        spread = np.linalg.pinv(design.T @ design) * self.sse / freedom
        rows = np.stack([p(at) for p in parts], axis=-1)
        variance = np.maximum(np.einsum("...i,ij,...j", rows, spread, rows), 0.0)
        half = stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance) + 1e-9 * np.abs(middle)
        low, high = np.maximum(middle - half, 0.0), middle + half
        if self.rivals is not None:
            others = self.rivals.curves(at, float(np.sqrt(self.sse / freedom)))
            low = np.fmin(low, np.fmin.reduce(others, axis=0, initial=np.inf))
            high = np.fmax(high, np.fmax.reduce(others, axis=0, initial=-np.inf))
        return np.asarray(np.maximum(low, 0.0)), np.asarray(high)

    @property
    def formula(self) -> str:
        """The model with its numbers, such as ``1.2e-05 + 3.4e-06 p log p``."""
        return self.in_unit("")

    def in_unit(self, unit: str) -> str:
        """Return the model with its numbers in a unit, such as ``12 µs + 3.4 µs p log p`` for "s".

        Parameters
        ----------
        unit : str
            Of the measurements; those that take SI prefixes get one.

        Returns
        -------
        str
            Rounded to four digits.
        """
        if self.term.is_constant and not self.others:
            return markup.quantity(self.constant, unit)
        times = " · " if unit else " "
        least = 1e-9 * float(self.y.min())
        texts = [markup.quantity(self.constant, unit)] if abs(self.constant) > least else []
        texts += [_multiple(p.coefficient, str(p.term), unit, times) for p in self.others]
        if not self.term.is_constant:
            texts.append(_multiple(self.coefficient, self.shape_text, unit, times))
        return " + ".join(texts).replace("+ -", "- ")

    @property
    def shape_text(self) -> str:
        """The function f as text: the term, or the expectation's own expression with its offsets."""
        return self._basis.shape_text if isinstance(self._basis, Expectation) else str(self.term)

    def __str__(self) -> str:
        """Print the growth, the formula and the quality of the fit."""
        r2 = "-" if self.r2_adjusted is None else f"{self.r2_adjusted:.4f}"
        name = "Nearest curve" if self.is_nearest else "Model"
        quality = f"(adjusted R2 {r2}, largest error {self.error:.2%})"
        return f"{name} O({self.term}): {self.in_unit(self.unit)} {quality}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        r2 = "–" if self.r2_adjusted is None else f"{self.r2_adjusted:.4f}"
        first, last = markup.number(self.x[0]), markup.number(self.x[-1])
        rows = [
            ("Nearest curve" if self.is_nearest else "Growth", f"O({self.term.html()})"),
            ("Formula", markup.escape(self.in_unit(self.unit))),
            ("Adjusted R²", r2),
            ("Largest error", f"{self.error:.2%}"),
            ("Leave-one-out error", f"{self.cross_validation:.2%}"),
            ("Measured at", f"{self.x.size} values, {self.parameter} = {first} … {last}"),
        ]
        return markup.titled_block("Scaling model", markup.properties(rows))


def _multiple(coefficient: float, shape: str, unit: str, times: str) -> str:
    factor = markup.quantity(coefficient, unit)
    return f"{factor}{shape[1:]}" if shape.startswith("1/") else f"{factor}{times}{shape}"
