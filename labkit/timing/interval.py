"""Confidence intervals of what repeated measurements centre on: the median (from ranks), or the mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from labkit.errors import DataError

__all__ = ["STATISTICS", "Interval", "interval", "least_values"]

#: what an interval can be of
STATISTICS = ("median", "mean")


@dataclass(frozen=True)
class Interval:
    """A confidence interval.

    Attributes
    ----------
    value, low, high : float
        The statistic and its interval; infinite where there are too few values for one.
    statistic : str
        ``"median"`` or ``"mean"``.
    level : float
        The confidence.
    count : int
        How many values there were.
    """

    value: float
    low: float
    high: float
    statistic: str
    level: float
    count: int

    @property
    def reach(self) -> float:
        """How far the farther end is from the value, as a share of it."""
        if not math.isfinite(self.low + self.high):
            return math.inf
        if self.value == 0:
            return 0.0 if self.low == self.high == 0 else math.inf
        return max(self.high - self.value, self.value - self.low) / abs(self.value)


def interval(values: Sequence[float], statistic: str = "median", level: float = 0.95) -> Interval:
    """Return the confidence interval of the median or of the mean.

    The median's is exact and assumes no distribution: its ends are two of the values, chosen so that a
    binomial law gives at least the level. The mean's is Student's, which assumes normal values.

    Parameters
    ----------
    values : sequence of float
        Independent measurements.
    statistic : {"median", "mean"}
    level : float
        Above 0 and below 1.

    Raises
    ------
    DataError
        For no values, values that are not finite, or another statistic or level.

    References
    ----------
    T. Hoefler, R. Belli: Scientific benchmarking of parallel computing systems. SC 2015, section 3.1.
    doi:10.1145/2807591.2807644

    Examples
    --------
    >>> interval([5.0, 1.0, 2.0, 4.0, 3.0, 9.0])
    Interval(value=3.5, low=1.0, high=9.0, statistic='median', level=0.95, count=6)
    >>> interval([1.0, 2.0, 3.0]).reach
    inf
    """
    if statistic not in STATISTICS:
        raise DataError(f"statistic must be one of: median, mean; got {statistic!r}")
    if not 0 < level < 1:
        raise DataError(f"the confidence level must be above 0 and below 1, got {level!r}")
    ordered = np.sort(np.asarray(values, np.float64))
    n = int(ordered.size)
    if not n or not np.isfinite(ordered).all():
        raise DataError("an interval needs at least one value, and all must be finite")
    if statistic == "median":
        k = _outermost(n, level)
        low, high = (-math.inf, math.inf) if k is None else (float(ordered[k]), float(ordered[n - 1 - k]))
        return Interval(float(np.median(ordered)), low, high, statistic, level, n)
    mean = float(ordered.mean())
    half = _student(n - 1, level) * float(ordered.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return Interval(mean, mean - half, mean + half, statistic, level, n)


@cache
def least_values(statistic: str = "median", level: float = 0.95) -> int:
    """Return how many values an interval takes at least: 6 for that of a median at 95 %."""
    return 2 if statistic == "mean" else max(2, math.ceil(1 - math.log2(1 - level)))


@cache
def _outermost(n: int, level: float) -> int | None:
    """Return the index of the value that an interval of the median begins with; None for too few values."""
    below, best = 0.0, None
    for k in range((n + 1) // 2):
        below += math.comb(n, k) / 2**n  # the chance that at most k values lie below the median
        if 1 - 2 * below < level:
            break
        best = k
    return best


@cache
def _student(freedom: int, level: float) -> float:
    from scipy.stats import t

    return float(t.ppf((1 + level) / 2, freedom))
