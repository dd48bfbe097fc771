"""The drift of data from an expectation over the range: a power of the parameter, with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from labkit.scaling.term import Term

__all__ = ["Drift", "drift_of"]

Floats = npt.NDArray[np.float64]

#: probability below the upper end of the uncertainty: 95 % intervals
_QUANTILE = 0.975
_LEAST = 3  # points of the later part


@dataclass(frozen=True)
class Drift:
    """How the ratio y/E of data to an expectation changes over the range: as x to the power of these numbers.

    Attributes
    ----------
    lowest, highest : float
        The least and the largest exponent from one value to the next.
    whole, late : float
        The exponent over the whole range, and over its later part.
    whole_error, late_error : float
        Half the widths of their 95 % intervals.
    end : float
        The exponent at the last value, of a parabola through the logarithms.
    end_error : float
        Half the width of its interval.
    limit : float
        The exponent of the tolerated deviation over the later part.
    scatter : float
        Relative standard deviation of the points around that parabola, or the known noise where it is more.
    never_faster : bool
        Whether no step exceeds the expectation by more than the tolerance.
    """

    lowest: float
    highest: float
    whole: float
    late: float
    whole_error: float
    late_error: float
    end: float
    end_error: float
    limit: float
    scatter: float
    never_faster: bool

    @property
    def kind(self) -> str:
        """What the range says of the expectation as an upper bound.

        "none" where the data grow faster than the limit allows in the end, "within" where they keep to the
        limit, above and below, "bound" where they are slower than that in the end or faster at no step, and
        "open" where the range does not tell.
        """
        low, high = self.late - self.late_error, self.late + self.late_error
        if low > self.limit:
            return "none"
        keeps = max(high, self.whole + self.whole_error, self.end + self.end_error) <= self.limit
        if keeps and low >= -self.limit:
            return "within"
        return "bound" if self.never_faster or (keeps and high < -self.limit) else "open"


def drift_of(
    x: Floats, y: Floats, expected: Floats, deviation: Term, tolerance: float, noise: float, start: int = 0
) -> Drift | None:
    """Return how data drift from an expectation; None where it is not positive and finite at every value.

    Parameters
    ----------
    x, y : ndarray, shape (n,)
        The points.
    expected : ndarray, shape (n,)
        The expectation's values.
    deviation : Term
        The tolerated deviation.
    tolerance : float
        Relative steps below this count as none.
    noise : float
        Relative standard deviation of a point, as far as it is known; what the points scatter around a smooth
        curve counts where it is more.
    start : int
        Where the later part begins at the earliest: the last change point.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z, logs = np.log(y) - np.log(expected), np.log(x)
        limits = np.log(2.0) * deviation.log2(x)
    if not (np.isfinite(z).all() and np.isfinite(limits).all()):
        return None
    n, steps = x.size, np.diff(z) / np.diff(logs)
    late = slice(min(max(n // 2, start), n - _LEAST), n)
    centred = logs - logs.mean()
    design = np.stack([np.ones(n), centred, centred**2], axis=1)
    inverse = np.linalg.pinv(design.T @ design)
    parabola = inverse @ design.T @ z
    scatter = max(noise, float(np.sqrt(((z - design @ parabola) ** 2).sum() / max(n - 3, 1))))
    sure = float(stdtrit(max(n - 3, 1), _QUANTILE)) * scatter
    ahead = np.array([0.0, 1.0, 2 * centred[-1]])  # the slope at the last value
    (whole, whole_width), (later, later_width) = _slope(logs, z), _slope(logs[late], z[late])
    return Drift(
        float(steps.min()), float(steps.max()), whole, later, sure / whole_width, sure / later_width,
        float(ahead @ parabola), sure * float(np.sqrt(ahead @ inverse @ ahead)),
        _slope(logs[late], limits[late])[0], scatter, bool((np.diff(z) <= np.log1p(tolerance)).all()),
    )  # fmt: skip


def _slope(x: Floats, y: Floats) -> tuple[float, float]:
    """Return the slope of a line through points, and the root of the sum of squares of x around its mean."""
    centred = x - x.mean()
    size = float(centred @ centred)
    return float(centred @ y) / size, float(np.sqrt(size))
