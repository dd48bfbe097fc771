"""A scaling model c + a f(p): one term fitted to measurements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from labkit import html as markup
from labkit.scaling.expectation import Basis, Expectation
from labkit.scaling.term import Term

if TYPE_CHECKING:
    from labkit.scaling.leastsquares import Fits

__all__ = ["Model"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Model:
    """c + a f(x) with one term f, fitted by relative least squares.

    Attributes
    ----------
    term : Term
        The exponents (exponential, polynomial, logarithmic) of the leading term.
    constant : float
        c >= 0, in the unit of the measurements.
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
    """

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

    @classmethod
    def from_fits(
        cls, fits: Fits, row: int, k: int, flat: int, basis: Basis, log_scale: float, x: Floats, y: Floats
    ) -> Model:
        """Pick fit k of data set `row`; `flat` is the index of the constant term."""
        term = basis.term if isinstance(basis, Expectation) else basis
        assert isinstance(term, Term)
        n = x.size
        sse, total = float(fits.sse[row, k]), float(fits.sse[row, flat])
        r2 = None if k == flat or total == 0 else 1 - (sse / (n - 2)) / (total / (n - 1))
        return cls(
            term=term,
            constant=float(fits.constant[row, k]),
            r2_adjusted=r2,
            error=float(fits.worst[row, k]),
            cross_validation=float(np.sqrt(fits.press[row, k] / n)),
            x=x,
            y=y,
            sse=sse,
            free=int(fits.free[row, k]),
            _basis=basis,
            _scaled=float(fits.coefficient[row, k]),
            _log_scale=float(log_scale),
        )

    @property
    def parameter(self) -> str:
        """The symbol of the parameter."""
        return self.term.symbol

    @property
    def coefficient(self) -> float:
        """The a of c + a f(x); 0 for a constant."""
        return float(np.exp2(np.log2(self._scaled) - self._log_scale)) if self._scaled > 0 else 0.0

    def predict(self, x: npt.ArrayLike) -> Floats:
        """Return the model's values.

        Parameters
        ----------
        x : array_like
            Values of the parameter, > 0.

        Returns
        -------
        ndarray
            Same shape, in the unit of the measurements.
        """
        return np.asarray(self.constant + self._scaled * self._shape(x), dtype=np.float64)

    def interval(self, x: npt.ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the confidence interval of the curve at x, if this term is the right one.

        Parameters
        ----------
        x : array_like
            Values of the parameter.
        level : float
            The confidence.

        Returns
        -------
        low, high : ndarray
            Same shape as x; low is at least 0.
        """
        both = not self.term.is_constant, self.constant > 0 or self.term.is_constant
        columns = [self._shape(self.x)] * both[0] + [np.ones_like(self.x)] * both[1]
        design = np.stack(columns, axis=1) / self.y[:, None]
        freedom = self.x.size - design.shape[1]
        spread = np.linalg.pinv(design.T @ design) * self.sse / freedom
        at = np.asarray(x, dtype=float)
        rows = np.stack([self._shape(at)] * both[0] + [np.ones_like(at)] * both[1], axis=-1)
        half = stdtrit(freedom, (1 + level) / 2) * np.sqrt(np.einsum("...i,ij,...j", rows, spread, rows))
        middle = self.predict(at)
        return np.maximum(middle - half, 0.0), middle + half

    def _shape(self, x: npt.ArrayLike) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp2(self._basis.log2(x) - self._log_scale), dtype=np.float64)

    @property
    def formula(self) -> str:
        """The model with its numbers, such as ``1.2e-05 + 3.4e-06 p log p``."""
        return self.in_unit("")

    def in_unit(self, unit: str) -> str:
        """Return the model with its numbers in a unit, such as ``12 µs + 3.4 µs p log p`` for "s"."""
        if self.term.is_constant:
            return markup.quantity(self.constant, unit)
        factor, shape = markup.quantity(self.coefficient, unit), self.shape_text
        times = " · " if unit else " "
        grown = f"{factor}{shape[1:]}" if shape.startswith("1/") else f"{factor}{times}{shape}"
        if self.constant <= 1e-9 * float(self.y.min()):
            return grown
        return f"{markup.quantity(self.constant, unit)} + {grown}"

    @property
    def shape_text(self) -> str:
        """The function f as text: the term, or the expectation's own expression with its offsets."""
        return self._basis.shape_text if isinstance(self._basis, Expectation) else str(self.term)

    def __str__(self) -> str:
        """Print the order of growth, in the notation of the literature."""
        return f"O({self.term})"

    def __repr__(self) -> str:
        """Print the growth, the formula and the quality of the fit."""
        r2 = "-" if self.r2_adjusted is None else f"{self.r2_adjusted:.4f}"
        return f"Model {self}: {self.in_unit(self.unit)} (adjusted R2 {r2}, largest error {self.error:.2%})"

    def _repr_html_(self) -> str:
        r2 = "–" if self.r2_adjusted is None else f"{self.r2_adjusted:.4f}"
        rows = [
            ("Growth", f"O({self.term.html()})"),
            ("Formula", markup.escape(self.in_unit(self.unit))),
            ("Adjusted R²", r2),
            ("Largest error", f"{self.error:.2%}"),
            ("Leave-one-out error", f"{self.cross_validation:.2%}"),
            ("Measured at", f"{self.x.size} values, {self.parameter} = {self.x[0]:g} … {self.x[-1]:g}"),
        ]
        return markup.card("Scaling model", markup.properties(rows))
