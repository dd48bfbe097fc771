"""Sums of two terms c + a f + b g: found where one term does not describe the data and two do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Pair", "Sum", "find_from_one", "find_pairs", "find_signed", "find_sums", "solve"]

Floats = npt.NDArray[np.float64]

_REFINED = 60  # candidates of the quick formula that are fitted with care
_EXTENDED = 20  # sums of two that a third term is added to
_LEAST_FOR_THREE = 7

#: places of the terms, their numbers (the constant last, where there is one), the squared error
Sum = tuple[tuple[int, ...], tuple[float, ...], float]


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

    @property
    def lead(self) -> int:
        """The function that leads in the end."""
        return self.k if self.l is None else self.l


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
    order = order[np.isfinite(quick[i, j][order])]
    k, l = i[order], j[order]  # noqa: E741
    found: dict[int, Pair] = {}
    for with_unit in (True, False):
        columns = [rows[k], rows[l]] + ([np.broadcast_to(unit, (k.size, unit.size))] if with_unit else [])
        numbers, error = solve(np.stack(columns, axis=2), target)
        sse, worst = (error**2).sum(axis=1), np.abs(error / root).max(axis=1)
        for t in np.flatnonzero((numbers[:, :2] > 0).all(axis=1)):
            c = float(numbers[t, 2]) / unit_size if with_unit else 0.0
            if c >= 0 and int(t) not in found:
                a, b = float(numbers[t, 0] / sizes[k[t]]), float(numbers[t, 1] / sizes[l[t]])
                pair = (int(usable[k[t]]), int(usable[l[t]]), c, a, b)
                found[int(t)] = Pair(*pair, float(sse[t]), float(worst[t]), len(columns))
    return sorted(found.values(), key=lambda p: (p.sse, p.k, p.l or 0))


def find_sums(values: Floats, y: Floats, constant: int) -> list[Sum]:
    """Return sums of two terms, and of three, with non-negative numbers, that come near data without noise.

    Parameters
    ----------
    values, y, constant
        As of `find_pairs`; three are tried where at least seven points leave some to judge them by.
    """
    pairs = find_pairs(values, y, y, np.ones_like(y), constant)
    unit = 1.0 / y
    found: list[Sum] = []
    for p in pairs:
        if p.l is not None:
            found.append(((p.k, p.l), (p.a, p.b, p.constant)[: p.free], p.sse))
    usable = [k for k in range(len(values)) if k != constant and np.isfinite(values[k]).all()]
    trials = sorted({tuple(sorted((*t, k))) for t, _, _ in found[:_EXTENDED] for k in usable if k not in t})
    if y.size < _LEAST_FOR_THREE or not trials:
        return found
    rows = values * unit
    columns = np.stack([rows[list(t)].T for t in trials])
    for extra in (True, False):
        units = np.broadcast_to(unit[None, :, None], (len(trials), y.size, 1))
        numbers, error = solve(
            np.concatenate([columns, units], axis=2) if extra else columns, np.ones_like(y)
        )
        sse = (error**2).sum(axis=1)
        good = np.flatnonzero((numbers[:, :3] > 0).all(axis=1) & (numbers[:, -1] >= 0))
        found += [(trials[t], tuple(map(float, numbers[t])), float(sse[t])) for t in good]
    return found


def solve(designs: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Return the least-squares numbers and the residuals of many designs, shape (t, n, m)."""
    sizes = np.abs(designs).max(axis=1)
    q, r = np.linalg.qr(designs / sizes[:, None])
    onto = np.einsum("tnm,n->tm", q, target)
    diagonal = np.abs(np.diagonal(r, axis1=1, axis2=2))
    is_regular = diagonal.min(axis=1) > 1e-14 * diagonal.max(axis=1)
    numbers = np.full(onto.shape, np.nan)
    numbers[is_regular] = np.linalg.solve(r[is_regular], onto[is_regular][..., None])[..., 0]
    error = target - np.einsum("tnm,tm->tn", designs / sizes[:, None], np.nan_to_num(numbers))
    return numbers / sizes, np.where(is_regular[:, None], error, np.inf)


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


def find_from_one(values: Floats, y: Floats, weights: Floats, counts: Floats, at_one: Floats) -> Pair | None:
    """Return the law a f(x) - c, c > 0, that fits best and is not below 0 at x = 1.

    One rank has nothing to send: p - 1 steps, messages or blocks are the commonest law of all.

    Parameters
    ----------
    values, y, weights, counts
        As of `find_pairs`.
    at_one : ndarray, shape (k,)
        The functions at x = 1 in the scale of `values`; 0 for those that may not take part.

    Returns
    -------
    Pair or None
        None where no such law rises with the data.
    """
    root, found, least = np.sqrt(counts), list[Pair](), float(weights.min())
    # data may lie anywhere in the range of doubles
    unit, target = root * (least / weights), y * root / weights
    for k in np.flatnonzero((at_one > 0) & np.isfinite(values).all(axis=1)):
        row = values[k] * unit
        (numbers,), (error,) = solve(np.stack([row, unit], axis=1)[None], target)
        a, c, free = float(numbers[0]), float(numbers[1]), 2
        if a > 0 and c < -a * at_one[k]:
            row = row - at_one[k] * unit
            a, free = float(row @ target / (row @ row)), 1
            c, error = -a * float(at_one[k]), target - a * row
        if a > 0 > c:
            worst = float(np.abs(error / root).max())
            found.append(Pair(int(k), None, c * least, a * least, 0.0, float(error @ error), worst, free))
    return min(found, key=lambda p: p.sse, default=None)


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
    unit = 1.0 / y
    rows = {k: values[k] / y for k in chosen}
    trials: list[tuple[int, ...]] = [(k,) for k in chosen]
    trials += [(k, l) for l in chosen for k in chosen if k < l]  # noqa: E741
    for with_constant in (False, True):
        for length in (1, 2):
            found = _exact(rows, [t for t in trials if len(t) == length], unit if with_constant else None)
            if found is not None:
                return found
    return None


def _exact(rows: dict[int, Floats], trials: list[tuple[int, ...]], unit: Floats | None) -> Pair | None:
    """Return the first of laws with as many terms that is exact, and none of whose parts vanishes."""
    size = len(trials[0]) + (unit is not None) if trials else 0
    if not trials or size > next(iter(rows.values())).size - 2:
        return None
    extra = [] if unit is None else [unit]
    designs = np.stack([np.stack([*(rows[k] for k in trial), *extra], axis=1) for trial in trials])
    numbers, error = solve(designs, np.ones(designs.shape[1]))
    parts = np.abs(numbers * np.abs(designs).max(axis=1))
    worst = np.abs(error).max(axis=1)
    with np.errstate(invalid="ignore"):
        good = (worst <= 1e-11) & (numbers[:, len(trials[0]) - 1] > 0)
        good &= parts.min(axis=1) >= 1e-6 * parts.max(axis=1)
    if not good.any():
        return None
    t = int(np.argmax(good))
    trial, own = trials[t], [float(v) for v in numbers[t]]
    c, sse = own[-1] if extra else 0.0, float(error[t] @ error[t])
    if len(trial) == 1:
        return Pair(trial[0], None, c, own[0], 0.0, sse, float(worst[t]), size)
    return Pair(trial[0], trial[1], c, own[0], own[1], sse, float(worst[t]), size)
