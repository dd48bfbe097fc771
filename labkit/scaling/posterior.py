"""Weights of the terms given noisy data: likelihoods averaged over all ratios of constant to growing part.

A curve c + a f is a scale times a shape; the shape has one number, the odds a f / c where f is least. For
errors relative to the value, the logarithms of the data lie around the logarithm of the shape with one
unknown shift and one unknown spread, both of which integrate in closed form; the odds are summed over a fixed
grid. It depends on the values of the parameter alone, so that thousands of data sets cost one product of
matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from labkit.scaling.expectation import Basis
from labkit.scaling.term import Term

__all__ = ["Belief", "Layout", "layout_of", "prior_of", "weigh"]

Floats = npt.NDArray[np.float64]

#: decades of a f / c at the least f, their spread, and the share of curves without a constant
_ODDS = np.linspace(-2.5, 3.0, 192)
_WIDTH, _WITHOUT = 1.0, 0.05
#: a second logarithm is the rarer thing; an expectation is twice as likely as another term
_SECOND_LOG, _EXPECTED = 0.5, 2.0
_NEGLIGIBLE = 25.0  # what is less likely by e^-25 than the best is left out
_BATCH = 400
#: nodes and weights that stand for a normal spread of the scale
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)


@dataclass(frozen=True, eq=False)
class Layout:
    """The logarithms of all shapes at the values of the parameter.

    Attributes
    ----------
    shapes : ndarray, shape (k * g, n)
        Centred, times the roots of the counts.
    centres : ndarray, shape (k * g,)
        What was taken off.
    squares : ndarray, shape (k * g,)
        Sums of squares of the rows.
    prior : ndarray, shape (g,)
        Weights of the grid.
    least : ndarray, shape (k,)
        The least positive value of each function.
    root, total : ndarray, float
        Roots of the counts, and their sum of squares.
    """

    shapes: Floats
    centres: Floats
    squares: Floats
    prior: Floats
    least: Floats
    root: Floats
    total: float


def layout_of(values: Floats, counts: Floats) -> Layout:
    """Return the layout of functions (k, n), each scaled to a maximum of 1."""
    return _layout(values.tobytes(), values.shape, counts.tobytes())


@lru_cache(maxsize=24)
def _layout(values: bytes, shape: tuple[int, int], counts: bytes) -> Layout:
    f, n = np.frombuffer(values).reshape(shape), np.frombuffer(counts)
    positive = np.where(f > 0, f, np.inf).min(axis=1)
    least = np.where(np.isfinite(positive), positive, 1.0)
    relative = np.nan_to_num(f / least[:, None], nan=1.0)
    odds = np.exp(np.log(10.0) * _ODDS)
    logs = np.log1p(odds[:, None] * relative[:, None, :])
    alone = np.log(np.maximum(relative, 1e-9))[:, None, :]
    logs = np.concatenate([logs, alone], axis=1).reshape(-1, shape[1])
    prior = np.exp(-0.5 * (_ODDS / _WIDTH) ** 2)
    prior = np.append(prior / prior.sum() * (1 - _WITHOUT), _WITHOUT)
    centres = logs @ n / n.sum()
    root = np.sqrt(n)
    rows = (logs - centres[:, None]) * root
    return Layout(rows, centres, (rows * rows).sum(axis=1), prior, least, root, float(n.sum()))


def prior_of(terms: Sequence[Term], expected: int | None) -> Floats:
    """Return how likely each term is beforehand."""
    weights = np.array([_SECOND_LOG if abs(t.logarithmic) > 1 else 1.0 for t in terms])
    if expected is not None:
        weights[expected] = _EXPECTED
    return weights


def _densities(layout: Layout, points: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Return (sets, k * g) the residual sums of squares, and the densities relative to the best."""
    logs = np.log(points)
    centred = (logs - (logs @ layout.root**2 / layout.total)[:, None]) * layout.root
    residual = centred @ layout.shapes.T
    residual *= -2.0
    residual += layout.squares
    residual += (centred * centred).sum(axis=1)[:, None]
    np.maximum(residual, 0.0, out=residual)
    residual += spread[:, None] + 1e-12
    power = (layout.total - 1) / 2
    best = residual.min(axis=1)
    density = np.zeros_like(residual)
    near = residual < (best * np.exp(_NEGLIGIBLE / power))[:, None]
    rows = np.nonzero(near)[0]
    density[near] = (residual[near] / best[rows]) ** -power
    return residual, density


def weigh(values: Floats, points: Floats, counts: Floats, spread: Floats, prior: Floats) -> Floats:
    """Return the weight of every term for every data set.

    Parameters
    ----------
    values : ndarray, shape (k, n)
        Functions from `labkit.scaling.leastsquares.basis_values`; rows of nan get no weight.
    points : ndarray, shape (s, n)
        One value for each group of repetitions.
    counts : ndarray, shape (n,)
        How many measurements each is worth.
    spread : ndarray, shape (s,)
        Sum of squared relative deviations within the groups.
    prior : ndarray, shape (k,)
        From `prior_of`.

    Returns
    -------
    ndarray, shape (s, k)
        Sums to 1 in each row.
    """
    layout = layout_of(values, counts)
    parts = []
    for i in range(0, len(points), _BATCH):
        _, density = _densities(layout, points[i : i + _BATCH], spread[i : i + _BATCH])
        parts.append(density.reshape(len(density), len(values), -1) @ layout.prior)
    weights = np.concatenate(parts) * np.where(np.isnan(values).any(axis=1), 0.0, prior)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Belief:
    """What noisy data say of the curve at any value of the parameter, over all terms.

    Attributes
    ----------
    bases : sequence of Basis, length k
        The functions.
    log_scales : ndarray, shape (k,)
        log2 of what their values were divided by.
    values, points, counts, spread, prior
        As in `weigh`, of one data set.
    """

    bases: Sequence[Basis]
    log_scales: Floats
    values: Floats = field(repr=False)
    points: Floats
    counts: Floats
    spread: float
    prior: Floats = field(repr=False)

    def quantiles(self, x: npt.ArrayLike, levels: Sequence[float]) -> Floats:
        """Return quantiles of the curve at x, shape (levels, *x.shape)."""
        at = np.asarray(x, dtype=float)
        layout = layout_of(self.values, self.counts)
        residual, density = _densities(layout, self.points[None], np.array([self.spread]))
        usable = np.where(np.isnan(self.values).any(axis=1), 0.0, self.prior)
        weights = (density[0].reshape(usable.size, -1) * layout.prior * usable[:, None]).ravel()
        chosen = np.flatnonzero(weights > 1e-7 * weights.max())
        k, g = np.divmod(chosen, layout.prior.size)
        spread = np.sqrt(residual[0, chosen] / max(layout.total - 2, 1.0) / layout.total)
        level = np.log(self.points) @ layout.root**2 / layout.total - layout.centres[chosen]
        mass = (weights[chosen][:, None] * _NODE_WEIGHTS).ravel()
        odds = np.append(np.log(10.0) * _ODDS, np.inf)[g]
        out = np.empty((len(levels), at.size))
        for i, value in enumerate(at.ravel()):
            logs = np.log(2.0) * np.array([float(b.log2(value)) for b in self.bases])
            with np.errstate(divide="ignore"):
                shape = (logs - np.log(2.0) * self.log_scales - np.log(layout.least))[k]
            grown = np.where(
                np.isinf(odds), shape, np.logaddexp(0.0, shape + np.where(np.isinf(odds), 0, odds))
            )
            logs_at = ((level + grown)[:, None] + spread[:, None] * _NODES).ravel()
            out[:, i] = _weighted_quantiles(logs_at, mass, levels)
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(out).reshape(len(levels), *at.shape), dtype=np.float64)


def _weighted_quantiles(values: Floats, mass: Floats, levels: Sequence[float]) -> Floats:
    order = np.argsort(values, kind="stable")
    below = np.cumsum(mass[order])
    places = np.searchsorted(below, np.asarray(levels) * below[-1])
    return np.asarray(values[order][np.minimum(places, order.size - 1)], dtype=np.float64)
