"""Sums of two terms c + a f + b g: found where one term does not describe the data and two do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Pair", "find_pairs", "find_signed"]

Floats = npt.NDArray[np.float64]

_REFINED = 60  # candidates of the quick formula that are fitted with care


@dataclass(frozen=True)
class Pair:
    """c + a f_k + b f_l, its errors relative to the weights it was fitted with.

    Attributes
    ----------
    k, l : int or None
        The functions, k the slower; l None for a single function.
    constant, a, b : float
        The numbers, for functions scaled to a maximum of 1.
    sse, worst : float
        Sum of squares and largest of the relative errors.
    free : int
        How many numbers were fitted.
    """

    k: int
    l: int | None  # noqa: E741
    constant: float
    a: float
    b: float
    sse: float
    worst: float
    free: int


def find_pairs(values: Floats, y: Floats, weights: Floats, counts: Floats, constant: int) -> list[Pair]:
    """Return the sums with non-negative numbers that fit best, the best first.

    Parameters
    ----------
    values : ndarray, shape (k, n)
        The functions, in the order of growth.
    y : ndarray, shape (n,)
        Positive data.
    weights : ndarray, shape (n,)
        Errors are divided by these values: the data, or a curve near them.
    counts : ndarray, shape (n,)
        How many measurements stand behind each point.
    constant : int
        Which function is 1.
    """
    usable = np.flatnonzero(np.isfinite(values).all(axis=1) & (np.arange(len(values)) != constant))
    root = np.sqrt(counts)
    unit = 1.0 / weights
    rows, target = values[usable] * unit * root, y * unit * root
    unit = unit * root
    # scaled to a maximum of 1: data may lie anywhere in the range of doubles
    sizes, unit_size = rows.max(axis=1), float(unit.max())
    rows, unit = rows / sizes[:, None], unit / unit_size
    with_constant = _screen(_without(rows, unit), _without(target, unit))
    alone = _screen(rows, target)
    quick = np.minimum(with_constant, alone)
    i, j = np.triu_indices(len(usable), 1)
    order = np.argsort(quick[i, j], kind="stable")[:_REFINED]
    found = []
    for k, l in zip(i[order], j[order], strict=True):  # noqa: E741
        pair = _fit(rows[k], rows[l], unit, target, root)
        if pair is not None:
            c, a, b, sse, worst, free = pair
            numbers = c / unit_size, a / float(sizes[k]), b / float(sizes[l])
            found.append(Pair(int(usable[k]), int(usable[l]), *numbers, sse, worst, free))
    return sorted(found, key=lambda p: (p.sse, p.k, p.l or 0))


def _without(rows: Floats, unit: Floats) -> Floats:
    """Return the part of each row that no constant explains."""
    return np.asarray(rows - np.multiply.outer(rows @ unit / (unit @ unit), unit), dtype=np.float64)


def _screen(rows: Floats, target: Floats) -> Floats:
    """Return the squared errors of all pairs by the normal equations; inf where a number is negative."""
    size = np.sqrt((rows * rows).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scaled = rows / size[:, None]
        product, onto = scaled @ scaled.T, scaled @ target
        rest = np.maximum(1 - product**2, 1e-15)
        a = (onto[:, None] - product * onto[None, :]) / rest
        errors = target @ target - a * onto[:, None] - a.T * onto[None, :]
    return np.where((a > 0) & (a.T > 0) & np.isfinite(errors), np.maximum(errors, 0.0), np.inf)


def _fit(
    f: Floats, g: Floats, unit: Floats, target: Floats, root: Floats
) -> tuple[float, float, float, float, float, int] | None:
    """Fit one pair with care: with a constant, without where that is negative; None where a term vanishes."""
    for columns in ((unit, f, g), (f, g)):
        design = np.stack(columns, axis=1)
        numbers = np.linalg.lstsq(design, target, rcond=None)[0]
        if (numbers[-2:] <= 0).any():
            continue
        if len(columns) == 3 and numbers[0] < 0:
            continue
        error = target - design @ numbers
        c = float(numbers[0]) if len(columns) == 3 else 0.0
        worst = float(np.abs(error / root).max())
        return c, float(numbers[-2]), float(numbers[-1]), float(error @ error), worst, len(columns)
    return None


def find_signed(values: Floats, y: Floats, constant: int, simple: npt.NDArray[np.bool_]) -> Pair | None:
    """Return the law that counted data follow to the last digit, with a constant or lower term below 0.

    Parameters
    ----------
    values : ndarray, shape (k, n)
        The functions, in the order of growth.
    y : ndarray, shape (n,)
        Positive data.
    constant : int
        Which function is 1.
    simple : ndarray of bool, shape (k,)
        Which functions may take part: growing ones with whole exponents.

    Returns
    -------
    Pair or None
        ``p - 1`` before ``p log p - p + 1``: the shortest law that is exact.
    """
    chosen = [int(k) for k in np.flatnonzero(simple) if k != constant and np.isfinite(values[k]).all()]
    unit, target = 1.0 / y, np.ones_like(y)
    rows = {k: values[k] / y for k in chosen}
    trials: list[tuple[int, ...]] = [(k,) for k in chosen]
    trials += [(k, l) for l in chosen for k in chosen if k < l]  # noqa: E741
    for with_constant in (False, True):
        for trial in trials:
            columns = [rows[k] for k in trial] + ([unit] if with_constant else [])
            if len(columns) > y.size - 2:
                continue
            design = np.stack(columns, axis=1)
            scale = np.abs(design).max(axis=0)
            scaled = np.linalg.lstsq(design / scale, target, rcond=None)[0]
            error = target - design / scale @ scaled
            numbers = scaled / scale
            lead = numbers[len(trial) - 1]
            if np.abs(error).max() > 1e-11 or lead <= 0:
                continue
            c = float(numbers[-1]) if with_constant else 0.0
            lower = float(numbers[0]) if len(trial) == 2 else 0.0
            parts = np.abs(scaled)
            if parts.min() < 1e-6 * parts.max():
                continue
            k, l = (trial[0], trial[1]) if len(trial) == 2 else (trial[0], None)  # noqa: E741
            a, b = (lower, float(lead)) if l is not None else (float(lead), 0.0)
            return Pair(k, l, c, a, b, float(error @ error), float(np.abs(error).max()), len(columns))
    return None
