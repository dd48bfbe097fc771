"""Chooses a model among fitted terms, and tells which terms the data do not reject."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc, fdtri

from labkit.scaling.leastsquares import Fits, fit_all
from labkit.scaling.samples import Samples

__all__ = ["Rejection", "choose", "rejection"]

Floats = npt.NDArray[np.float64]

#: relative errors below this are rounding
_ROUNDING = 1e-11
#: a spread of the repetitions below this is no noise: the data count as deterministic
_NOISELESS = 1e-3
#: level of the test that tells a growing term from a constant
_CONSTANT_LEVEL = 0.01


def choose(fits: Fits, n: int, constant: int, preferred: int | None = None) -> npt.NDArray[np.int64]:
    """Choose a term for every data set.

    The term with the least leave-one-out error wins; a constant stays unless the winner explains
    more by an F-test at 1 %.

    Parameters
    ----------
    fits : Fits
        Fits of s data sets with k terms.
    n : int
        Number of points.
    constant : int
        Which term is 1.
    preferred : int, optional
        The term that wins ties (all errors in the rounding), the expectation.

    Returns
    -------
    ndarray of int, shape (s,)
    """
    rounding = n * _ROUNDING**2
    press = np.maximum(fits.press, rounding)
    if preferred is not None:
        tied = fits.press[:, preferred] <= rounding
        press[tied, preferred] = 0.0
    press[:, constant] = np.inf
    best = np.argmin(press, axis=1)
    grows = _grows(fits, n, constant)[np.arange(len(best)), best]
    return np.where(grows, best, constant)


def _grows(fits: Fits, n: int, constant: int) -> npt.NDArray[np.bool_]:
    """Return, shape (s, k), whether a term explains more than a constant does (F-test at 1 %)."""
    flat = fits.sse[:, [constant]]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (flat - fits.sse) / np.maximum(fits.sse / (n - 2), 1e-300)
        significant = ratio > fdtri(1, n - 2, 1 - _CONSTANT_LEVEL)
    return np.asarray(significant & (flat > n * _ROUNDING**2) & np.isfinite(fits.sse))


@dataclass(frozen=True)
class Rejection:
    """Which terms the data reject.

    Attributes
    ----------
    kept : ndarray of bool, shape (k,)
        Terms that are not rejected.
    test : str
        In words, the test that was used.
    is_statistical : bool
        Whether repetitions gave the test its yardstick.
    """

    kept: npt.NDArray[np.bool_]
    test: str
    is_statistical: bool


def rejection(
    samples: Samples,
    values: Floats,
    fits: Fits,
    constant: int,
    *,
    level: float = 0.05,
    tolerance: float = 0.02,
) -> Rejection:
    """Test every term for lack of fit.

    With repetitions, the scatter around the fitted curve is compared with the scatter of the
    repetitions (F-test on the group means).  Deterministic data and single measurements have no
    such yardstick: a term is then kept when its curve meets every point within the tolerance,
    relative to the point and to the range of the data.
    A growing term must besides explain more than a constant: its coefficient could as well be 0.

    Parameters
    ----------
    samples : Samples
        The measurements.
    values : ndarray, shape (k, n)
        The functions (`labkit.scaling.leastsquares.basis_values`).
    fits : Fits
        The fits of the aggregated data, one set.
    constant : int
        Which term is 1.
    level : float
        The level of the F-test.
    tolerance : float
        The largest relative error of a curve that is kept without a test.
    """
    spread, freedom = samples.noise
    grows = _grows(fits, samples.x.size, constant)[0]
    grows[constant] = True
    if freedom == 0 or spread / freedom <= _NOISELESS**2:
        kind = "single measurements" if freedom == 0 else "deterministic data"
        limit = max(tolerance, _ROUNDING)
        # beside a large constant every curve is near in relative terms: the range counts as well
        kept = grows & (fits.worst[0] <= limit) & (fits.worst_of_range[0] <= limit)
        kept[constant] = fits.worst[0, constant] <= limit
        return Rejection(kept, f"{kind}: every point within {100 * tolerance:g} % of the curve", False)
    on_means = fit_all(values, samples.means[None], samples.counts)
    degrees = samples.x.size - on_means.free[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = on_means.sse[0] / degrees / (spread / freedom)
    is_fitted = np.isfinite(ratio)
    p_value = np.where(is_fitted, fdtrc(degrees, freedom, np.where(is_fitted, ratio, 0.0)), 0.0)
    test = f"lack-of-fit F-test at {100 * level:g} %, from the repetitions"
    return Rejection(grows & (p_value > level), test, True)
