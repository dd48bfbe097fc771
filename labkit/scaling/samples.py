"""Measurements of one quantity at several values of one parameter, with their repetitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labkit.checks import echo
from labkit.errors import DataError
from labkit.text.html import number

__all__ = ["AGGREGATES", "LEAST_VALUES", "Samples", "Summary", "floats_of", "read_samples", "summarize"]

Floats = npt.NDArray[np.float64]

#: fewer values of the parameter cannot separate terms (Shudler et al., section 2.3)
LEAST_VALUES = 5

_LEAST, _MOST = 1e-300, 1e300  # beyond them relative errors lose their digits, and sums overflow

AGGREGATES: dict[str, Callable[[Floats], Floats]] = {
    "quartile": lambda v: np.asarray(np.percentile(v, 25, axis=-1)),
    "min": lambda v: np.asarray(v.min(axis=-1)),
    "median": lambda v: np.asarray(np.median(v, axis=-1)),
    "mean": lambda v: np.asarray(v.mean(axis=-1)),
}

#: "auto" takes the mean, which uses all measurements, unless some lie this many spreads from their group
_OUTLYING = 6.0
#: what a measurement counts for an aggregate other than the mean, which uses the others less
_EFFICIENCY = 0.6
#: a spread of the repetitions below this is no noise: the data count as deterministic
_NOISELESS = 1e-3


@dataclass(frozen=True, eq=False)
class Summary:
    """One value for each group, and how far it can be trusted.

    `points` (ndarray, shape (n,)): The aggregated values.
    `counts` (ndarray, shape (n,)): How many measurements each is worth.
    `spread`: Sum of squared relative deviations within the groups.
    `freedom`: Its degrees of freedom.
    `aggregate`: What stands for the repetitions.
    """

    points: Floats
    counts: Floats
    spread: float
    freedom: int
    aggregate: str

    @property
    def is_noisy(self) -> bool:
        """Whether repetitions show noise."""
        return self.freedom > 0 and self.spread / self.freedom > _NOISELESS**2

    @property
    def deviation(self) -> float:
        """The relative standard deviation of a measurement; 0 when it is not known."""
        return float(np.sqrt(self.spread / self.freedom)) if self.freedom else 0.0


@dataclass(frozen=True)
class Samples:
    """Sorted values of the parameter, each with its repetitions.

    Attributes
    ----------
    x : ndarray, shape (n,)
        Distinct values of the parameter, increasing.
    groups : tuple of ndarray
        The repetitions at each value.
    """

    x: Floats
    groups: tuple[Floats, ...]

    def aggregate(self, how: str = "auto") -> Floats:
        """Return one value per group: its first quartile, min, median or mean, shape (n,)."""
        return self.summary(how).points

    def summary(self, how: str = "auto") -> Summary:
        """Return one value per group with its weight: "auto" is the mean, the quartile of outliers.

        Measurements that were all entered k times count once.
        """
        if (copies := _copies(self.groups)) > 1:
            return Samples(self.x, tuple(np.sort(g)[::copies] for g in self.groups)).summary(how)
        sizes = {g.size for g in self.groups}
        if len(sizes) == 1:
            return summarize(np.stack(self.groups)[None], how)[0]
        if how == "auto":
            how = "quartile" if _is_outlying([g / np.median(g) - 1 for g in self.groups]) else "mean"
        _check(how)
        spread, freedom = self.noise
        worth = 1.0 if how == "mean" else _EFFICIENCY
        counts = np.where(self.counts > 1, worth * self.counts, 1.0)
        return Summary(
            np.array([float(AGGREGATES[how](g)) for g in self.groups]), counts, spread, freedom, how
        )

    @property
    def means(self) -> Floats:
        """The mean of each group, shape (n,)."""
        return np.array([g.mean() for g in self.groups])

    @property
    def counts(self) -> Floats:
        """The number of repetitions of each value, shape (n,)."""
        return np.array([float(g.size) for g in self.groups])

    @property
    def noise(self) -> tuple[float, int]:
        """The pure error: sum of squared relative deviations from group means, and degrees of freedom."""
        spread = sum(float((((g - g.mean()) / g.mean()) ** 2).sum()) for g in self.groups)
        return spread, sum(g.size - 1 for g in self.groups)

    def require(self) -> None:
        """Refuse to model fewer than five values of the parameter."""
        if self.x.size < LEAST_VALUES:
            raise DataError(self.too_few(), code="not-enough-data")

    def too_few(self) -> str:
        """Return the sentence that says there are too few values."""
        values = ", ".join(f"{number(v)}" for v in self.x)
        return (
            f"a model needs at least {LEAST_VALUES} different values of the parameter, got {self.x.size} "
            f"({values}); measure at more values"
        )


def _copies(groups: Sequence[Floats]) -> int:
    """Return how many times every measurement is there: the greatest common divisor of all multiplicities."""
    common = 0
    for group in groups:
        common = math.gcd(common, *np.unique(group, return_counts=True)[1].tolist())
        if common == 1:
            break
    return common


def _check(how: str) -> None:
    if not isinstance(how, str) or how not in AGGREGATES:
        raise DataError(
            f"aggregate {echo(how)} is not known; known: auto, {', '.join(AGGREGATES)}", code="unknown-name"
        )


def _is_outlying(deviations: list[Floats]) -> bool:
    """Return whether some measurement lies far from its group's median, compared with the others."""
    every = np.concatenate(deviations)
    sizes = max(d.size for d in deviations)
    if sizes < 3:
        return False
    usual = 1.4826 * float(np.median(np.abs(every[every != 0]))) if every.any() else 0.0
    return bool(usual > 0 and float(np.abs(every).max()) > _OUTLYING * usual)


def summarize(data: Floats, how: str = "auto") -> list[Summary]:
    """Summarize data sets of equal shape.

    `data` (ndarray, shape (s, n, r)): Positive measurements, r repetitions of each value.
    `how` ({"auto", "mean", "quartile", "median", "min"}): What stands for the repetitions.
    """
    if how != "auto":
        _check(how)
    sets, n, repetitions = data.shape
    ordered = np.sort(data, axis=2)
    half = repetitions // 2
    middle = (ordered[..., half] + ordered[..., half - 1 + repetitions % 2]) / 2
    outlying, usual = np.zeros(sets, dtype=bool), np.full(sets, np.inf)
    if how == "auto" and repetitions >= 3:
        off = np.sort(np.abs(data / middle[..., None] - 1).reshape(sets, -1), axis=1)
        zeros = np.count_nonzero(off == 0, axis=1)
        rows, left = np.arange(sets), off.shape[1] - zeros
        low, high = (np.minimum(zeros + k, off.shape[1] - 1) for k in ((left - 1) // 2, left // 2))
        usual = np.where(left > 0, (off[rows, low] + off[rows, high]) / 2, np.inf)
        outlying = off[:, -1] > _OUTLYING * 1.4826 * usual
    means = data.sum(axis=2) / repetitions
    freedom = n * (repetitions - 1)
    spread = ((data / means[..., None] - 1) ** 2).sum(axis=(1, 2))
    # the bulk's spread, which a few outliers do not stretch
    spread = np.where(outlying, freedom * (1.4826 * np.where(outlying, usual, 0.0)) ** 2, spread).tolist()
    worth = {
        name: np.full(n, repetitions * (1.0 if name == "mean" else _EFFICIENCY) if repetitions > 1 else 1.0)
        for name in AGGREGATES
    }
    names = np.where(outlying, "quartile", "mean").tolist() if how == "auto" else [how] * sets
    return [
        Summary(
            means[i] if name == "mean" else AGGREGATES[name](data[i]), worth[name], spread[i], freedom, name
        )
        for i, name in enumerate(names)
    ]


def read_samples(x: npt.ArrayLike, y: npt.ArrayLike) -> Samples:
    """Check and group measurements.

    Parameters
    ----------
    x : array_like, shape (m,)
        Values of the parameter, > 0; repeated where a measurement was.
    y : array_like, shape (m,) or (m, repetitions)
        The measurements, > 0 since relative errors are fitted.

    Raises
    ------
    DataError
        When shapes differ or a value is not a positive finite number.
    """
    try:
        for given in (x, y):
            if np.iscomplexobj(given) or np.asarray(given).dtype.kind == "b":
                raise TypeError("complex numbers have no order, and True and False are no amounts")
        xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"measurements must be numbers: {str(error)[:120]}", code="wrong-type") from None
    if xs.ndim != 1 or ys.ndim not in (1, 2) or ys.shape[:1] != xs.shape:
        raise DataError(
            f"x must have shape (m,) and y (m,) or (m, repetitions); got {xs.shape} and {ys.shape}",
            code="count-mismatch",
        )
    if xs.size == 0 or ys.size == 0:
        raise DataError("there are no measurements", code="no-data")
    if ys.ndim == 2:
        xs = np.repeat(xs, ys.shape[1])
        ys = ys.ravel()
    for name, values in (("parameter", xs), ("measurement", ys)):
        bad = ~((values > _LEAST) & (values < _MOST))
        if bad.any():
            if not values.any():
                raise DataError(
                    f"every {name} is 0: there is nothing that grows, and no ratio can be formed",
                    code="no-data",
                )
            at = int(np.argmax(bad))
            wanted = "must be a positive finite number"
            if 0 < values[at] < np.inf:
                wanted = f"must be above {_LEAST:g} and below {_MOST:g}"
            raise DataError(
                f"every {name} {wanted}; number {at + 1} of {values.size} is {values[at]:g}; "
                "leave such points out",
                code="not-finite",
            )
    order = np.argsort(xs, kind="stable")
    xs, ys = xs[order], ys[order]
    distinct, starts = np.unique(xs, return_index=True)
    return Samples(distinct, tuple(np.split(ys, starts[1:])))


def floats_of(name: str, given: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return a number, or several in any shape, as floats; refuse anything else."""
    try:
        if np.iscomplexobj(given):
            raise TypeError
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{name} must be a number or several; got {echo(given)}", code="wrong-type") from None
