"""Change points: where data leave one law for another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labkit.scaling.family import ROUNDING
from labkit.scaling.term import CONSTANT, Term

__all__ = ["Segment", "find_bend", "find_segments", "fit_bend"]

Floats = npt.NDArray[np.float64]

_SHORTEST = 4  # points of a segment
_MOST = 4  # segments
_PENALTY = (
    5.0  # numbers a further segment costs: constant, coefficient, the term's two exponents, the position
)
_BEND = 3  # points on either side of a bend
_CLEAR = 2.0  # every other term misses the points by this many times more
_SLOPES = 0.2  # least change of the slope, relative to the larger one
_PLACES = np.linspace(0.0, 1.0, 64, endpoint=False)  # of one curve's bend, tried between two points
_ABOUT = 0.1  # the lines meet between the two points, or by this share of their distance beyond
_BREAK = 2.0  # a change is this many times sharper than any bend elsewhere


@dataclass(frozen=True)
class Segment:
    """One law over a part of the range.

    `first`, `last`: The points it covers, both inclusive.
    `term`: The law's term.
    """

    first: int
    last: int
    term: Term


def find_segments(
    terms: tuple[Term, ...], values: Floats, x: Floats, y: Floats, counts: Floats, deviation: float
) -> tuple[Segment, ...]:
    """Return the segments that describe the data best; a single one where no change is worth its price.

    All divisions are compared, by the squared errors in units of the deviation and a price for each segment.

    `terms`, `values`: The space and its functions over x, shape (k, n).
    `x`, `y` (ndarray, shape (n,)): The data.
    `counts` (ndarray, shape (n,)): How many measurements stand behind each point.
    `deviation`: Relative standard deviation of one measurement.
    """
    n = y.size
    if n < 2 * _SHORTEST:
        return ()
    errors, chosen = _interval_errors(values, y, counts)
    cost = errors / deviation**2
    price = _PENALTY * float(np.log(counts.sum()))
    best = np.full((_MOST + 1, n + 1), np.inf)
    origin = np.zeros((_MOST + 1, n + 1), dtype=int)
    best[0, 0] = 0.0
    for count in range(1, _MOST + 1):
        for end in range(_SHORTEST, n + 1):
            for start in range(end - _SHORTEST + 1):
                total = best[count - 1, start] + cost[start, end - 1] + price
                if total < best[count, end]:
                    best[count, end], origin[count, end] = total, start
    count = int(np.argmin(best[1:, n])) + 1
    end, segments = n, []
    while count:
        start = int(origin[count, end])
        segments.append(Segment(start, end - 1, terms[int(chosen[start, end - 1])]))
        end, count = start, count - 1
    found = tuple(reversed(segments))
    return tuple(found) if _is_sharp(x, y, found) else ()


def _is_sharp(x: Floats, y: Floats, segments: tuple[Segment, ...]) -> bool:
    """Return whether the curve breaks at the changes: a curve that bends all along has no change point."""
    slopes = np.diff(np.log(y)) / np.diff(np.log(x))
    bends = np.abs(np.diff(slopes))
    at_change = np.zeros(bends.size, dtype=bool)
    for segment in segments[1:]:
        at_change[max(segment.first - 2, 0) : segment.first] = True
    if not at_change.any() or at_change.all():
        return True
    return bool(bends[at_change].max() >= _BREAK * bends[~at_change].max())


def _interval_errors(values: Floats, y: Floats, counts: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return, shape (n, n), the least squared relative error of points i to j, and the term that has it."""
    usable: npt.NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=1))
    f = np.where(usable[:, None], values, 1.0)
    w = counts / y**2

    def between(products: Floats) -> Floats:
        total = np.concatenate([np.zeros((*products.shape[:-1], 1)), np.cumsum(products, axis=-1)], axis=-1)
        return np.asarray(total[..., None, 1:] - total[..., :-1, None], dtype=np.float64)

    s, sy, syy = between(w), between(w * y), between(w * y * y)
    sf, sff, sfy = between(w * f), between(w * f * f), between(w * f * y)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = sff - sf**2 / s
        along = sfy - sf * sy / s
        flat = syy - sy**2 / s
        gain = np.where((spread > 1e-12 * sff) & (along > 0), along**2 / spread, 0.0)
    error = np.where(usable[:, None, None], flat - gain, np.inf)
    chosen = np.asarray(np.argmin(error, axis=0), dtype=np.int64)
    return np.maximum(np.min(error, axis=0), 0.0), chosen


def find_bend(terms: tuple[Term, ...], values: Floats, y: Floats, near: float) -> tuple[Segment, ...]:
    """Return two pieces c + a f of one growing term that meet at a bend; none where no term does so clearly.

    `terms`, `values`: The space and its functions over x, shape (k, n).
    `y` (ndarray, shape (n,)): The data.
    `near`: The largest relative error at a point.
    """
    n = y.size
    grows = np.array([t > CONSTANT for t in terms]) & np.isfinite(values).all(axis=1)
    grows &= (np.diff(values, axis=1) > 0).all(axis=1)
    misses, places = np.full(len(terms), np.inf), np.zeros(len(terms), dtype=int)
    for at in range(_BEND, n - _BEND + 1) if grows.any() else ():
        (c, a, off), (c2, a2, off2) = (_lines(values[grows, i:j], y[i:j]) for i, j in ((0, at), (at, n)))
        before, after = values[grows, at - 1], values[grows, at]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            place = ((c - c2) / (a2 - a) - before) / (after - before)
        rises = np.minimum(a, a2) * (values[grows, -1] - values[grows, 0]) > -near * y.min()
        good = rises & (np.abs(a2 - a) > _SLOPES * np.maximum(np.abs(a), np.abs(a2)))
        good &= (place > -_ABOUT) & (place < 1 + _ABOUT)
        miss = np.where(good, np.maximum(off, off2), np.inf)
        closer = miss < misses[grows]
        misses[grows], places[grows] = (
            np.where(closer, miss, misses[grows]),
            np.where(closer, at, places[grows]),
        )
    k, at = int(np.argmin(misses)), int(places[np.argmin(misses)])
    if not misses[k] <= near or (np.delete(misses, k) < _CLEAR * misses[k]).any():
        return ()
    return Segment(0, at - 1, terms[k]), Segment(at, n - 1, terms[k])


def _lines(f: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Return c and a of c + a f, least squares of relative errors, and the largest error, for each row."""
    columns = np.stack([np.ones_like(f), f], axis=2) / y[:, None]
    numbers = np.linalg.pinv(columns).sum(axis=2)
    off = np.abs((columns @ numbers[..., None])[..., 0] - 1).max(axis=1)
    return numbers[:, 0], numbers[:, 1], off


def fit_bend(f: Floats, y: Floats, counts: Floats, near: Floats) -> tuple[float, float] | None:
    """Return the f at which c + a f, a >= 0, turns steeper, and the squared error; None without a fit.

    `f` (ndarray, shape (n,)): A growing function at the points.
    `y`, `counts` (ndarray, shape (n,)): The data, and how many measurements stand behind each point.
    `near` (ndarray, shape (n,)): The largest relative error at each point.
    """
    best: tuple[float, float] | None = None
    ones, weights = np.ones(y.size), np.sqrt(counts)
    for i in range(1, y.size - 2):
        for bend in f[i] + _PLACES * (f[i + 1] - f[i]):
            columns = np.stack([ones, f, np.maximum(f - bend, 0.0)], axis=1) / y[:, None]
            numbers = np.linalg.lstsq(columns * weights[:, None], weights, rcond=None)[0]
            off = columns @ numbers - 1
            sse = float(counts @ off**2)
            rises = numbers[1] > -ROUNDING and numbers[2] > 0
            if rises and (np.abs(off) <= near).all() and (best is None or sse < best[1]):
                best = float(bend), sse
    return best
