"""Chooses a model among fitted terms, and tells which terms the data do not reject."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc, fdtri

from labkit.scaling.leastsquares import Fits
from labkit.scaling.samples import Summary

__all__ = [
    "ROUNDING",
    "Rejection",
    "choose",
    "choose_weighted",
    "explains_more",
    "grows",
    "keep_near",
    "keep_tested",
    "lack_of_fit",
]

Floats = npt.NDArray[np.float64]

#: relative errors below this are rounding
ROUNDING = 1e-11
#: level of the tests that tell a growing term from a constant, and a sum from a shorter law
_CONSTANT_LEVEL = 0.01
#: how the level of a rejection is shared by lack of fit and by comparison with the best term
_OF_FIT, _OF_RATIO = 0.6, 0.4


def choose(fits: Fits, n: int, constant: int, preferred: int | None = None) -> npt.NDArray[np.int64]:
    """Choose a term for every data set without repetitions.

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
    rounding = n * ROUNDING**2
    press = np.maximum(fits.press, rounding)
    if preferred is not None:
        tied = fits.press[:, preferred] <= rounding
        press[tied, preferred] = 0.0
    press[:, constant] = np.inf
    best = np.argmin(press, axis=1)
    is_better = grows(fits, n, constant)[np.arange(len(best)), best]
    return np.where(is_better, best, constant)


def choose_weighted(weights: Floats, fits: Fits) -> npt.NDArray[np.int64]:
    """Choose the likeliest term that has a curve, or the one that meets all points to the last digit."""
    ranks = np.where(np.isfinite(fits.sse), weights, -1.0) + (fits.worst <= ROUNDING)
    return np.asarray(np.argmax(ranks, axis=1), dtype=np.int64)


def grows(fits: Fits, n: int, constant: int) -> npt.NDArray[np.bool_]:
    """Return, shape (s, k), whether a term explains more than a constant does (F-test at 1 %)."""
    flat = fits.sse[:, [constant]]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (flat - fits.sse) / np.maximum(fits.sse / (n - 2), 1e-300)
        significant = ratio > fdtri(1, n - 2, 1 - _CONSTANT_LEVEL)
    return np.asarray(significant & (flat > n * ROUNDING**2) & np.isfinite(fits.sse))


def explains_more(sse: float, free: int, shorter_sse: float, shorter_free: int, n: int) -> bool:
    """Whether a law with more numbers explains more than a shorter one does (F-test at 1 %)."""
    more, left = max(free - shorter_free, 1), max(n - free, 1)
    if shorter_sse <= n * ROUNDING**2:
        return False
    ratio = (shorter_sse - sse) / more / max(sse / left, 1e-300)
    return bool(ratio > fdtri(more, left, 1 - _CONSTANT_LEVEL))


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
    is_hopeless : bool
        Whether no term would be kept at a fiftieth of the level either (at no level without repetitions).
    """

    kept: npt.NDArray[np.bool_]
    test: str
    is_statistical: bool
    is_hopeless: bool


def keep_near(fits: Fits, n: int, constant: int, tolerance: float, freedom: int) -> Rejection:
    """Keep the terms whose curve meets every point of deterministic data or single measurements.

    There is no scatter to compare with: the curve must meet every point within the tolerance, relative to the
    point and to the range of the data. A growing term must besides explain more than a constant: its
    coefficient could as well be 0.
    """
    kind = "single measurements" if freedom == 0 else "deterministic data"
    limit = max(tolerance, ROUNDING)
    # beside a large constant every curve is near in relative terms: the range counts as well
    kept = grows(fits, n, constant)[0] & (fits.worst[0] <= limit) & (fits.worst_of_range[0] <= limit)
    kept[constant] = fits.worst[0, constant] <= limit
    words = f"{kind}: every point within {100 * tolerance:g} % of the curve"
    return Rejection(kept, words, False, not kept.any())


def keep_tested(summary: Summary, fits: Fits, weights: Floats, prior: Floats, level: float) -> Rejection:
    """Keep the terms that repeated measurements do not reject.

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
    test = f"lack of fit and likelihood at {100 * level:g} %, from the repetitions"
    kept = is_near & (p_value > _OF_FIT * level)
    return Rejection(kept, test, True, not bool((p_value > 0.02 * level).any()))


def lack_of_fit(summary: Summary, sse: Floats, free: npt.NDArray[np.int64]) -> Floats:
    """Return the p-values of the F-test of curves with `free` numbers; 0 where there is no curve."""
    degrees = summary.points.size - free
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = sse / degrees / (summary.spread / summary.freedom)
    is_fitted = np.isfinite(ratio)
    p_value = fdtrc(degrees, summary.freedom, np.where(is_fitted, ratio, 0.0))
    return np.asarray(np.where(is_fitted, p_value, 0.0), dtype=np.float64)
