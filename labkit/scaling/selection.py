"""Terms of repeated measurements: the likeliest, and those that the data do not reject."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc

from labkit.scaling.leastsquares import Fits
from labkit.scaling.samples import Summary

__all__ = ["choose_weighted", "keep_tested", "lack_of_fit"]

Floats = npt.NDArray[np.float64]

#: relative errors below this are rounding
_ROUNDING = 1e-11
#: how the level of a rejection is shared by lack of fit and by comparison with the best term
_OF_FIT, _OF_RATIO = 0.6, 0.4


def choose_weighted(weights: Floats, fits: Fits) -> npt.NDArray[np.int64]:
    """Choose the likeliest term that has a curve, or the one that meets all points to the last digit."""
    ranks = np.where(np.isfinite(fits.sse), weights, -1.0) + (fits.worst <= _ROUNDING)
    return np.asarray(np.argmax(ranks, axis=1), dtype=np.int64)


def keep_tested(
    summary: Summary, fits: Fits, weights: Floats, prior: Floats, level: float
) -> npt.NDArray[np.bool_]:
    """Return which terms repeated measurements do not reject, shape (k,).

    A term is rejected by lack of fit, when the points scatter around its curve more than the repetitions
    around the points, and by comparison, when the data are much less likely under it than under the best
    term. Both share the level.

    Parameters
    ----------
    summary : Summary
        The measurements.
    fits : Fits
        The fits of one data set.
    weights, prior : ndarray, shape (k,)
        From `labkit.scaling.posterior`.
    level : float
        How often a right term may be rejected.
    """
    p_value = lack_of_fit(summary, fits.sse[0], fits.free[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        likelihood = np.nan_to_num(weights / prior)
    is_near = likelihood >= _OF_RATIO * level * likelihood.max()
    return np.asarray(is_near & (p_value > _OF_FIT * level))


def lack_of_fit(summary: Summary, sse: Floats, free: npt.NDArray[np.int64]) -> Floats:
    """Return the p-values of the F-test of curves with `free` numbers; 0 where there is no curve."""
    degrees = summary.points.size - free
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = sse / degrees / (summary.spread / summary.freedom)
    is_fitted = np.isfinite(ratio)
    p_value = fdtrc(degrees, summary.freedom, np.where(is_fitted, ratio, 0.0))
    return np.asarray(np.where(is_fitted, p_value, 0.0), dtype=np.float64)
