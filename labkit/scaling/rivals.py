"""Curves that describe data without noise about as well as the chosen one: an interval holds them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from labkit.scaling.expectation import Basis
from labkit.scaling.leastsquares import Fits
from labkit.scaling.selection import ROUNDING, grows
from labkit.scaling.sums import Sum, find_sums

__all__ = ["RIVAL", "Rivals"]

Floats = npt.NDArray[np.float64]

#: how far data without noise may miss a curve beyond the best one until that curve is no rival
RIVAL = 3.0


@dataclass(frozen=True, eq=False)
class Rivals:
    """The terms, and sums of two or three, that miss the points at most three times as far as a model does.

    Attributes
    ----------
    bases : sequence of Basis, length k
        The functions.
    values : ndarray, shape (k, n)
        Their values, scaled to a maximum of 1.
    log_scales : ndarray, shape (k,)
        log2 of the scales.
    constant : int
        Which function is 1.
    points : ndarray, shape (n,)
        The data.
    fits : Fits
        The fits of the data, perhaps among others.
    row : int
        Which of them.
    """

    bases: Sequence[Basis]
    values: Floats = field(repr=False)
    log_scales: Floats = field(repr=False)
    constant: int
    points: Floats = field(repr=False)
    fits: Fits = field(repr=False)
    row: int = 0

    def curves(self, x: npt.ArrayLike, deviation: float) -> Floats:
        """Return the rivals' values at x, shape (rivals, *x.shape).

        Parameters
        ----------
        x : array_like
            Values of the parameter.
        deviation : float
            The root mean square of the relative errors of the model they compete with.
        """
        at, limit = np.asarray(x, dtype=float), RIVAL * max(deviation, ROUNDING)
        fits, row, n = self.fits, self.row, self.points.size
        errors = np.sqrt(fits.sse[row] / np.maximum(n - fits.free[row], 1))
        single = np.flatnonzero((errors <= limit) & (grows(fits, n, self.constant)[row] | self._is_flat))
        with np.errstate(over="ignore", invalid="ignore"):
            found = [
                fits.constant[row, k] + fits.coefficient[row, k] * self._shape(int(k), at) for k in single
            ]
            if deviation > 100 * ROUNDING:
                for terms, numbers, sse in self._sums:
                    if np.sqrt(sse / max(n - len(numbers), 1)) <= limit:
                        parts = [a * self._shape(k, at) for k, a in zip(terms, numbers, strict=False)]
                        found.append(sum(parts) + (numbers[-1] if len(numbers) > len(terms) else 0.0))
        return np.array(found).reshape(len(found), *at.shape)

    @property
    def _is_flat(self) -> npt.NDArray[np.bool_]:
        return np.asarray(np.arange(len(self.values)) == self.constant)

    @cached_property
    def _sums(self) -> list[Sum]:
        return find_sums(self.values, self.points, self.constant)

    def _shape(self, k: int, at: Floats) -> Floats:
        return np.asarray(np.exp2(self.bases[k].log2(at) - self.log_scales[k]), dtype=np.float64)
