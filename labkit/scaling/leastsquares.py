"""Closed-form weighted least squares of c + a f(x), for all terms and all data sets together.

The weights are 1/y^2, or 1/curve^2 of noisy data, so that relative errors count; a > 0 and c >= 0 hold; the
leave-one-out errors come from the diagonal of the hat matrix.  Everything is an array over (data sets, terms,
points).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from labkit.scaling.expectation import Basis
from labkit.scaling.term import CONSTANT, Term

__all__ = ["Fits", "basis_values", "best_line", "fit_all", "lines_with_factor"]

Floats = npt.NDArray[np.float64]

#: points of data sets x terms x points that one batch may hold (a few arrays of 8 bytes each)
_BATCH = 50_000
#: ranges of data beyond which functions are scaled once more
_SAFE = 1e60
#: factors that the search for one begins with, and its rounds
_STARTS, _ROUNDS = np.exp2(np.linspace(-3, 3, 13)), 3
#: values that differ by a smaller share are equal but for rounding
_EVEN = 1e-12


@dataclass(frozen=True)
class Fits:
    """The fits of many data sets (s) with many terms (k).

    `constant`, `coefficient` (ndarray, shape (s, k)): c and a of c + a f, where f is scaled to have its
        largest value 1.
    `sse` (ndarray, shape (s, k)): Sums of squared relative errors.
    `press` (ndarray, shape (s, k)): Sums of squared relative leave-one-out errors; inf for terms that cannot
        be fitted.
    `worst` (ndarray, shape (s, k)): Largest error relative to a point.
    `free` (ndarray of int, shape (s, k)): Number of fitted parameters (1 where c is held at 0, and for the
        constant).
    """

    constant: Floats
    coefficient: Floats
    sse: Floats
    press: Floats
    worst: Floats
    free: npt.NDArray[np.int64]


def basis_values(bases: Sequence[Basis], x: Floats) -> tuple[Floats, Floats]:
    """Return each function's values scaled to a maximum of 1, and log2 of the scales.

    `bases`: The functions.
    `x` (ndarray, shape (n,)): Values of the parameter.
    Returns `values` (ndarray, shape (k, n)): nan in a row whose function is not finite and positive somewhere
        above 0.
    Returns: ndarray, shape (k,).
    """
    logs = _log2(bases, x)
    with np.errstate(invalid="ignore"):
        scales = logs.max(axis=1)
        bad = ~np.isfinite(scales) | np.isnan(logs).any(axis=1) | (logs == np.inf).any(axis=1)
        values = np.exp2(logs - scales[:, None])
    values[bad] = np.nan
    return values, scales


def _log2(bases: Sequence[Basis], x: Floats) -> Floats:
    """Return log2 of the functions, shape (k, n): all bare terms together."""
    exponents = _exponents(tuple(b if isinstance(b, Term) else CONSTANT for b in bases))
    with np.errstate(divide="ignore", invalid="ignore"):
        lx = np.log2(x)
        parts = [np.multiply.outer(e, v) for e, v in zip(exponents, (x, lx, np.log2(lx)), strict=True)]
    logs = sum(np.where(e[:, None] != 0, part, 0.0) for e, part in zip(exponents, parts, strict=True))
    out = np.asarray(logs, dtype=np.float64)
    for k, basis in enumerate(bases):
        if not isinstance(basis, Term):
            out[k] = basis.log2(x)
    return out


@lru_cache(maxsize=256)
def _exponents(terms: tuple[Term, ...]) -> Floats:
    return np.array([[float(e) for e in t] for t in terms]).T


def fit_all(values: Floats, y: Floats, counts: Floats | None = None, *, is_noisy: bool = False) -> Fits:
    """Fit every row of y with every row of values.

    `values` (ndarray, shape (k, n)): Functions from `basis_values`.
    `y` (ndarray, shape (s, n)): Positive data.
    `counts` (ndarray, shape (n,), optional): How many measurements stand behind each point (weights).
    `is_noisy`: Take errors relative to the fitted curve, not to the measured value: noise pulls the weights
        1/y^2 down to the values that are too small by chance. Costs a second pass.
    """
    per_batch = max(1, _BATCH // max(values.size, 1))
    parts = [_fit_batch(values, y[i : i + per_batch], counts, is_noisy) for i in range(0, len(y), per_batch)]
    fields = ("constant", "coefficient", "sse", "press", "worst", "free")
    return Fits(*(np.concatenate([getattr(p, name) for p in parts]) for name in fields))


def _fit_batch(f: Floats, y: Floats, counts: Floats | None, is_noisy: bool) -> Fits:
    """Fit one batch; arrays are laid out as (points, data sets, terms), so that sums run over whole rows."""
    worth = np.ones(y.shape[1]) if counts is None else counts
    least = y.min(axis=1)
    at, g = np.ascontiguousarray((y / least[:, None]).T), np.ascontiguousarray(f.T)
    flat: npt.NDArray[np.bool_] = np.asarray(np.ptp(f, axis=1) == 0)  # the term 1
    root = np.sqrt(worth)[:, None, None]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        near = at[..., None]
        if is_noisy and at.max() < _SAFE:
            c, a = _line(g, at, worth[:, None] / at**2, flat)
            curve = np.clip(c + a * g[:, None], 0.5 * near, 2.0 * near)
            near = np.where(np.isfinite(curve), curve, near)
        return _fit_weighted(g, at, root / near, root, flat, least)


def _line(g: Floats, y: Floats, w: Floats, flat: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return c and a of each line, shape (s, k), with weights of the points alone: products of matrices."""
    total, onto = w.sum(axis=0)[:, None], (w * y).sum(axis=0)[:, None]
    sums, squares, along = w.T @ g, w.T @ g**2, (w * y).T @ g
    a = np.where(flat, 0.0, (along - onto * sums / total) / (squares - sums**2 / total))
    c = (onto - a * sums) / total
    a = np.where((c < 0) & (a > 0), along / squares, a)
    return np.maximum(c, 0.0), a


def _fit_weighted(
    g: Floats, y: Floats, unit: Floats, root: Floats, flat: npt.NDArray[np.bool_], least: Floats
) -> Fits:
    """Fit y unit = c unit + a g unit, with a unit for each point, of points from 1 on."""
    target, v = y[..., None] * unit, g[:, None] * unit
    scale = np.ones(v.shape[1:])
    if y.max() > _SAFE:  # functions that are tiny where the data are would lose their digits
        scale = v.max(axis=0)
        v = v / scale
    uu, uv = (unit * unit).sum(axis=0), (unit * v).sum(axis=0)
    across = v - uv / uu * unit  # the part of v that no constant explains
    rest = (across * across).sum(axis=0)
    a, onto = (across * target).sum(axis=0) / rest, (unit * target).sum(axis=0)
    c = (onto - a * uv) / uu
    zero = (c < 0) & (a > 0)
    usable = flat | (a > 0)
    alone = unit * unit / uu
    leverage = alone + across * across / rest
    if zero.any():
        squares = v * v
        total = squares.sum(axis=0)
        a = np.where(zero, (v * target).sum(axis=0) / total, a)
        leverage = np.where(zero, squares / total, leverage)
    a, c = np.where(flat, 0.0, a), np.where(flat, onto / uu, np.where(zero, 0.0, c))
    leverage[..., flat] = np.broadcast_to(alone, leverage.shape)[..., flat]
    error = target - c * unit - np.where(flat, 0.0, a * v)
    off = error * error
    sse, left_out = off.sum(axis=0), (off / np.maximum(1.0 - leverage, 1e-12) ** 2).sum(axis=0)
    usable &= np.isfinite(sse)
    relative = np.abs(error / target).max(axis=0)
    sse, left_out, relative = (np.where(usable, value, np.inf) for value in (sse, left_out, relative))
    free = np.where(flat | zero, 1, 2)
    lead, lift = a / scale * least[:, None], c * least[:, None]
    return Fits(lift, lead, sse, left_out, relative, free)


def lines_with_factor(
    masks: npt.NDArray[np.bool_], f: Floats, y: Floats, is_flat: npt.NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """Return c, a and the factor where a mask is set, for every mask and term, by least squares.

    From the best of some factors on they alternate: c and a for a factor (a is 0 for the term 1), the
    factor for c and a. Each round ends with the limit that the last three factors tend to (Steffensen),
    where its errors are smaller.
    """
    u, uf = np.broadcast_to(1 / y, f.shape), f / y
    powers = np.stack([u, uf, u * u, u * uf, uf * uf])
    inside, outside = np.einsum("amn,skn->asmk", np.stack([masks, ~masks]).astype(float), powers)

    def line(g: Floats) -> tuple[Floats, Floats, Floats]:
        ut, ft, uu, uf, ff = (
            o + h * i for o, i, h in zip(outside, inside, (g, g, g * g, g * g, g * g), strict=True)
        )
        a = np.where(is_flat, 0.0, (ft - ut * uf / uu) / (ff - uf * uf / uu))
        c = (ut - a * uf) / uu
        return c, a, c * ut + a * ft  # the last is the number of values less the squared errors

    def turn(g: Floats) -> tuple[Floats, Floats]:
        c, a, explained = line(g)
        ahead = c * c * inside[2] + 2 * c * a * inside[3] + a * a * inside[4]
        return (c * inside[0] + a * inside[1]) / ahead, explained

    factor = _STARTS[np.argmax(np.nan_to_num(line(_STARTS[:, None, None])[2], posinf=0.0), axis=0)]
    for _ in range(_ROUNDS):
        first, _ = turn(factor)
        second, explained = turn(first)
        limit = second - (second - first) ** 2 / (second - 2 * first + factor)
        after, by_limit = turn(limit)
        factor = np.where(by_limit > explained, after, second)
    c, a, _ = line(factor)
    return c, a, factor


def best_line(terms: Sequence[Term], x: Floats, y: Floats) -> Term:
    """Return the term f of the curve c + a f that predicts points best which it was not fitted to.

    This is the selection of Shudler et al. (TPDS 2019, section 2.3): linear regression of each term of a
    search space, errors in the unit of y, leave-one-out cross-validation.  There is always an answer, however
    far the curve is from the points; `labkit.judge` does not follow this method.

    `terms`: The search space, with 1 in it.
    `x`, `y` (ndarray, shape (n,)): One value for each value of the parameter.
    """
    values, _ = basis_values(terms, x)
    flat: npt.NDArray[np.bool_] = np.asarray(np.ptp(values, axis=1) == 0)
    off, middle = values - values.mean(axis=1, keepdims=True), y - y.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        a = np.where(flat, 0.0, off @ middle / (off * off).sum(axis=1))
        leverage = 1 / y.size + np.where(flat[:, None], 0.0, off**2 / (off * off).sum(axis=1)[:, None])
        left_out = (((middle - a[:, None] * off) / (1 - leverage)) ** 2).sum(axis=1)
    is_even = np.ptp(y) <= _EVEN * y.max()
    usable = flat if is_even else flat | (a > 0)
    return terms[int(np.argmin(np.where(usable & np.isfinite(left_out), left_out, np.inf)))]
