"""Closed-form weighted least squares of c + a f(x), for all terms and all data sets at once.

The weights are 1/y^2, or 1/curve^2 of noisy data, so that relative errors count; a > 0 and c >= 0 hold; the
leave-one-out errors come from the diagonal of the hat matrix.  Everything is an array over (data sets, terms,
points).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labkit.scaling.expectation import Basis

__all__ = ["Fits", "basis_values", "fit_all"]

Floats = npt.NDArray[np.float64]

#: points of data sets x terms x points that one batch may hold (a few arrays of 8 bytes each)
_BATCH = 50_000


@dataclass(frozen=True)
class Fits:
    """The fits of many data sets (s) with many terms (k).

    Attributes
    ----------
    constant, coefficient : ndarray, shape (s, k)
        c and a of c + a f, where f is scaled to have its largest value 1.
    sse : ndarray, shape (s, k)
        Sums of squared relative errors.
    press : ndarray, shape (s, k)
        Sums of squared relative leave-one-out errors; inf for terms that cannot be fitted.
    worst : ndarray, shape (s, k)
        Largest relative error.
    worst_of_range : ndarray, shape (s, k)
        Largest error relative to the range max(y) - min(y) of the data.
    free : ndarray of int, shape (s, k)
        Number of fitted parameters (1 where c is held at 0, and for the constant).
    """

    constant: Floats
    coefficient: Floats
    sse: Floats
    press: Floats
    worst: Floats
    worst_of_range: Floats
    free: npt.NDArray[np.int64]


def basis_values(bases: Sequence[Basis], x: Floats) -> tuple[Floats, Floats]:
    """Return each function's values scaled to a maximum of 1, and log2 of the scales.

    Parameters
    ----------
    bases : sequence of Basis, length k
        The functions.
    x : ndarray, shape (n,)
        Values of the parameter.

    Returns
    -------
    values : ndarray, shape (k, n)
        nan in a row whose function is not finite and positive somewhere above 0.
    log_scales : ndarray, shape (k,)
    """
    logs = np.array([np.broadcast_to(b.log2(x), x.shape) for b in bases], dtype=float)
    with np.errstate(invalid="ignore"):
        scales = logs.max(axis=1)
        bad = ~np.isfinite(scales) | np.isnan(logs).any(axis=1) | (logs == np.inf).any(axis=1)
        values = np.exp2(logs - scales[:, None])
    values[bad] = np.nan
    return values, scales


def fit_all(values: Floats, y: Floats, counts: Floats | None = None, *, is_noisy: bool = False) -> Fits:
    """Fit every row of y with every row of values.

    Parameters
    ----------
    values : ndarray, shape (k, n)
        Functions from `basis_values`.
    y : ndarray, shape (s, n)
        Positive data.
    counts : ndarray, shape (n,), optional
        How many measurements stand behind each point (weights).
    is_noisy : bool
        Take errors relative to the fitted curve, not to the measured value: noise pulls the weights 1/y^2
        down to the values that are too small by chance. Costs a second pass.

    Returns
    -------
    Fits
    """
    per_batch = max(1, _BATCH // max(values.size, 1))
    parts = [_fit_batch(values, y[i : i + per_batch], counts, is_noisy) for i in range(0, len(y), per_batch)]
    fields = ("constant", "coefficient", "sse", "press", "worst", "worst_of_range", "free")
    return Fits(*(np.concatenate([getattr(p, name) for p in parts]) for name in fields))


def _fit_batch(f: Floats, y: Floats, counts: Floats | None, is_noisy: bool) -> Fits:
    root = np.sqrt(np.ones(y.shape[1]) if counts is None else counts)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        first = _relative(f, y, (1.0 / y)[:, None, :], root)
        if not is_noisy:
            return first
        curve = first.constant[..., None] + first.coefficient[..., None] * f
        near = np.clip(curve, 0.5 * y[:, None], 2.0 * y[:, None])
        return _relative(f, y, 1.0 / np.where(np.isfinite(near), near, y[:, None]), root)


def _relative(f: Floats, y: Floats, unit: Floats, root: Floats) -> Fits:
    """Fit with the weights unit^2: y unit = c unit + a f unit, scaled so that nothing overflows."""
    unit_scale = unit.max(axis=2)
    scaled = unit / unit_scale[..., None]
    target = y[:, None] * unit * root
    u = scaled * root
    v = f[None] * scaled
    v_scale = v.max(axis=2)
    v = v / v_scale[..., None] * root
    uu, uv, vv = (u * u).sum(axis=2), (u * v).sum(axis=2), (v * v).sum(axis=2)
    across = v - (uv / uu)[..., None] * u  # the part of v that no constant explains
    rest = (across * across).sum(axis=2)
    a = (across * target).sum(axis=2) / rest
    c = ((u * target).sum(axis=2) - a * uv) / uu
    through_zero = (c < 0) & (a > 0)
    a = np.where(through_zero, (v * target).sum(axis=2) / vv, a)
    c = np.where(through_zero, 0.0, c)
    leverage = np.where(
        through_zero[..., None],
        v * v / vv[..., None],
        u * u / uu[..., None] + across**2 / rest[..., None],
    )
    flat = np.ptp(f, axis=1) == 0  # the term 1
    a = np.where(flat, 0.0, a)
    c = np.where(flat, (u * target).sum(axis=2) / uu, c)
    leverage = np.where(flat[:, None], u * u / uu[..., None], leverage)
    error = target - c[..., None] * u - np.where(flat[:, None], 0.0, a[..., None] * v)
    left_out = error / np.maximum(1.0 - leverage, 1e-12)
    usable = np.isfinite(a) & np.isfinite(error).all(axis=2) & (flat | (a > 0))
    off = np.abs(error / root)
    of_range = off / unit / np.ptp(y, axis=1)[:, None, None]
    return Fits(
        c / unit_scale,
        np.where(flat, 0.0, a / v_scale / unit_scale),
        np.where(usable, (error**2).sum(axis=2), np.inf),
        np.where(usable, (left_out**2).sum(axis=2), np.inf),
        np.where(usable, off.max(axis=2), np.inf),
        np.where(usable, of_range.max(axis=2), np.inf),
        np.where(flat | through_zero, 1, 2),
    )
