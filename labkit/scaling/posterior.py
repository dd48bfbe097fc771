"""Weights of the terms given noisy data: likelihoods averaged over all ratios of constant to growing part.

A curve c + a f is a scale times a shape; the shape has one number, the odds a f / c where f is least. For
errors relative to the value, the logarithms of the data lie around the logarithm of the shape with one
unknown shift and one unknown spread, both of which integrate in closed form; the odds are summed over nodes
around the best fit, as far as the data allow, with a broad prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc

from labkit.scaling.expectation import Basis
from labkit.scaling.leastsquares import Fits
from labkit.scaling.samples import Summary
from labkit.scaling.term import Term

__all__ = ["Belief", "Data", "choose_weighted", "keep_tested", "lack_of_fit", "prior_of", "weigh"]


Floats = npt.NDArray[np.float64]

_DECADE = float(np.log(10.0))
#: range and width of the logarithm of a f / c at the least f, and the share of curves without a constant
_LEAST, _MOST, _WIDTH, _WITHOUT = -2.5 * _DECADE, 3.0 * _DECADE, 1.0 * _DECADE, 0.05
#: a second logarithm is rarer, so is more than p^2, and the more an exponential with a broken exponent; in a
#: space chosen for it, an expectation is twice as likely as another term
_SECOND_LOG, _STEEP, _BROKEN, _EXPECTED = 0.5, 0.2, 0.1, 2.0
#: places in 0 ... 1 and shares of nodes: few and precise for a sum, many and even for quantiles
_Rule = tuple[Floats, Floats]
_PLACES, _SHARES = np.polynomial.legendre.leggauss(16)
_PRECISE: _Rule = ((_PLACES + 1) / 2, _SHARES / 2)
_EVEN: _Rule = (np.linspace(0, 1, 40), np.full(40, 1 / 39))
_HIGHEST = 1e200  # functions that grow by more are cut there: their logarithms still differ from all others
_REACH = 5.0  # standard deviations that the nodes cover
_NEGLIGIBLE = 12.0  # terms less likely by e^-12 than the best get no weight
_BATCH = 4000
#: nodes and weights that stand for a normal spread of the scale
_NORMAL, _NORMAL_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)


def prior_of(terms: Sequence[Term], expected: int | None) -> Floats:
    """Return how likely each term is beforehand."""
    weights = np.array([_SECOND_LOG if abs(t.logarithmic) > 1 else 1.0 for t in terms])
    weights[[t.polynomial > 2 or bool(t.exponential) for t in terms]] *= _STEEP
    weights[[t.exponential.denominator > 1 for t in terms]] *= _BROKEN
    if expected is not None:
        weights[expected] = _EXPECTED
    return weights


@dataclass(frozen=True, eq=False)
class Data:
    """Noisy data sets measured at the same values.

    `values` (ndarray, shape (k, n)): Functions from `labkit.scaling.leastsquares.basis_values`; rows with nan
        get no weight.
    `points` (ndarray, shape (s, n)): One value for each group of repetitions.
    `counts` (ndarray, shape (n,)): How many measurements each is worth.
    `spread` (ndarray, shape (s,)): Sum of squared relative deviations within the groups.
    """

    values: Floats
    points: Floats
    counts: Floats
    spread: Floats

    @property
    def total(self) -> float:
        """How many measurements there are."""
        return float(self.counts.sum())

    @property
    def relative(self) -> Floats:
        """The functions relative to their least positive values, shape (k, n)."""
        positive = np.where(self.values > 0, self.values, np.inf).min(axis=1)
        least = np.where(np.isfinite(positive), positive, 1.0)[:, None]
        with np.errstate(over="ignore"):
            return np.minimum(np.nan_to_num(self.values / least, nan=1.0), _HIGHEST)


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Shapes with their weights: arrays over (candidates, nodes), the last node without a constant."""

    row: npt.NDArray[np.int64]
    term: npt.NDArray[np.int64]
    log_odds: Floats
    shift: Floats
    error: Floats
    log_weight: Floats


def _candidates(data: Data, fits: Fits) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return rows and terms that are not hopelessly unlikely."""
    total = fits.sse + data.spread[:, None] + 1e-14
    limit = total.min(axis=1) * np.exp(2 * _NEGLIGIBLE / (data.total - 1))
    rows, terms = np.nonzero(total <= limit[:, None])
    return rows, terms


def _nodes(
    data: Data, fits: Fits, rows: npt.NDArray[np.int64], terms: npt.NDArray[np.int64], rule: _Rule
) -> _Nodes:
    """Lay nodes around the best odds of each candidate, and weigh them; points lead in all arrays."""
    n, total = data.counts, data.total
    f = np.ascontiguousarray(data.relative[terms].T)
    least = np.divide(1.0, f.max(axis=0))
    with np.errstate(divide="ignore"):
        best = np.log(fits.coefficient[rows, terms] * least) - np.log(fits.constant[rows, terms])
    best = np.clip(np.nan_to_num(best, nan=0.0, posinf=_MOST, neginf=_LEAST), _LEAST, _MOST)
    sse = fits.sse[rows, terms] + data.spread[rows] + 1e-14
    deviation = np.sqrt(sse / max(total - 2, 1.0))
    grown = np.exp(best) * f
    slope = grown / (1 + grown)
    slope = slope - n @ slope / total
    width = deviation / np.sqrt(n @ slope**2 + 1e-300)
    # without a constant the odds are open above, and below until the constant is seen
    is_open = fits.constant[rows, terms] <= 0
    low = np.where(is_open, -np.log(20 * deviation / np.sqrt(total)), best - _REACH * width)
    low = np.clip(low, _LEAST, _MOST - 1.0)
    high = np.clip(np.where(is_open, _MOST, best + _REACH * width), low + 1e-9, _MOST)
    places, shares = rule
    odds = low[:, None] + (high - low)[:, None] * places
    # the logarithms of data and shapes around their own means: the shift between them is then known
    z = np.ascontiguousarray(np.log(data.points).T)
    middle = n @ z / total
    logs = np.log(np.exp(odds) * f[..., None] + 1.0)
    bare = np.log(np.maximum(f, 1e-9))[..., None]
    error, shift = np.empty((2, rows.size, places.size + 1))
    for part, shape in ((slice(0, -1), logs), (slice(-1, None), bare)):
        mean = np.tensordot(n, shape, 1) / total
        shift[:, part] = middle[rows][:, None] - mean
        shape -= mean
        shape -= (z - middle)[:, rows, None]
        shape *= shape
        error[:, part] = np.tensordot(n, shape, 1)
    error += data.spread[rows][:, None] + 1e-14
    prior = -0.5 * (odds / _WIDTH) ** 2 - np.log(_WIDTH * np.sqrt(2 * np.pi)) + np.log(1 - _WITHOUT)
    prior += np.log(high - low)[:, None] + np.log(shares)
    prior = np.concatenate([prior, np.full((rows.size, 1), np.log(_WITHOUT))], axis=1)
    flat = f.max(axis=0) == 1.0  # the term 1 has no odds: its one shape gets all
    prior[flat] = -np.inf
    prior[flat, -1] = 0.0
    odds = np.concatenate([odds, np.full((rows.size, 1), np.inf)], axis=1)
    return _Nodes(rows, terms, odds, shift, error, prior - 0.5 * (total - 1) * np.log(error))


def weigh(data: Data, fits: Fits, prior: Floats) -> Floats:
    """Return the weight of every term for every data set, shape (s, k); sums to 1 in each row.

    `data`: The data sets.
    `fits`: Their fits with the same functions.
    `prior` (ndarray, shape (k,)): From `prior_of`.
    """
    rows, terms = _candidates(data, fits)
    evidence = np.full(fits.sse.shape, -np.inf)
    for i in range(0, rows.size, _BATCH):
        some = slice(i, i + _BATCH)
        nodes = _nodes(data, fits, rows[some], terms[some], _PRECISE)
        top = nodes.log_weight.max(axis=1)
        mass = np.exp(nodes.log_weight - top[:, None]).sum(axis=1)
        evidence[nodes.row, nodes.term] = top + np.log(mass)
    weights = prior * np.exp(evidence - evidence.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Belief:
    """What noisy data say of the curve at any value of the parameter, over all terms.

    `bases`: The functions.
    `log_scales` (ndarray, shape (k,)): log2 of what their values were divided by.
    `data`: The data sets.
    `fits`: Their fits.
    `prior` (ndarray, shape (k,)): As in `weigh`.
    `row`: Which data set.
    """

    bases: Sequence[Basis]
    log_scales: Floats
    data: Data = field(repr=False)
    fits: Fits = field(repr=False)
    prior: Floats = field(repr=False)
    row: int = 0

    def quantiles(self, x: npt.ArrayLike, levels: Sequence[float]) -> Floats:
        """Return quantiles of the curve at x, shape (levels, *x.shape)."""
        at, data = np.asarray(x, dtype=float), self.data
        rows, terms = _candidates(data, self.fits)
        chosen = rows == self.row
        nodes = _nodes(data, self.fits, rows[chosen], terms[chosen], _EVEN)
        weights = nodes.log_weight + np.log(self.prior[nodes.term])[:, None]
        weights = np.exp(weights - weights.max())
        usable = weights > 1e-7
        spread = np.sqrt(nodes.error / max(data.total - 2, 1.0) / data.total)[usable]
        mass = (weights[usable][:, None] * _NORMAL_WEIGHTS).ravel()
        base = np.log(data.relative.max(axis=1)) - np.log(2.0) * self.log_scales
        out = np.empty((len(levels), at.size))
        for i, value in enumerate(at.ravel()):
            logs = {int(k): np.log(2.0) * float(self.bases[k].log2(value)) + base[k] for k in nodes.term}
            shape = np.array([logs[int(k)] for k in nodes.term])[:, None]
            grown = np.where(np.isinf(nodes.log_odds), shape, np.logaddexp(0.0, shape + nodes.log_odds))
            logs_at = (nodes.shift + grown)[usable][:, None] + spread[:, None] * _NORMAL
            out[:, i] = _weighted_quantiles(logs_at.ravel(), mass, levels)
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(out).reshape(len(levels), *at.shape), dtype=np.float64)


def _weighted_quantiles(values: Floats, mass: Floats, levels: Sequence[float]) -> Floats:
    order = np.argsort(values, kind="stable")
    below = np.cumsum(mass[order])
    places = np.searchsorted(below, np.asarray(levels) * below[-1])
    return np.asarray(values[order][np.minimum(places, order.size - 1)], dtype=np.float64)


# Terms of repeated measurements: the likeliest, and those that the data do not reject.


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

    `summary`: The measurements.
    `fits`: The fits of one data set.
    `weights`, `prior` (ndarray, shape (k,)): From `labkit.scaling.posterior`.
    `level`: How often a right term may be rejected.
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
