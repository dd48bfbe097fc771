"""Measurements of one quantity at several values of one parameter, with their repetitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labkit.errors import DataError

__all__ = ["AGGREGATES", "LEAST_VALUES", "Samples", "read_samples"]

Floats = npt.NDArray[np.float64]

#: fewer values of the parameter cannot tell terms apart (Shudler et al., section 2.3)
LEAST_VALUES = 5

_LEAST = 1e-300  # below it relative errors lose their digits

AGGREGATES: dict[str, Callable[[Floats], float]] = {
    "quartile": lambda v: float(np.percentile(v, 25)),
    "min": lambda v: float(v.min()),
    "median": lambda v: float(np.median(v)),
    "mean": lambda v: float(v.mean()),
}


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

    def aggregate(self, how: str = "quartile") -> Floats:
        """Return one value per group: its first quartile, min, median or mean, shape (n,)."""
        if how not in AGGREGATES:
            raise DataError(f"aggregate {how!r} is not known; known: {', '.join(AGGREGATES)}")
        return np.array([AGGREGATES[how](g) for g in self.groups])

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
            raise DataError(self.too_few())

    def too_few(self) -> str:
        """Return the sentence that says there are too few values."""
        values = ", ".join(f"{v:g}" for v in self.x)
        return (
            f"a model needs at least {LEAST_VALUES} different values of the parameter, got {self.x.size} "
            f"({values}); measure at more values"
        )


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
        if np.iscomplexobj(x) or np.iscomplexobj(y):
            raise TypeError("complex numbers have no order")
        xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"measurements must be numbers: {error}") from None
    if xs.ndim != 1 or ys.ndim not in (1, 2) or ys.shape[:1] != xs.shape:
        raise DataError(
            f"x must have shape (m,) and y (m,) or (m, repetitions); got {xs.shape} and {ys.shape}"
        )
    if xs.size == 0 or ys.size == 0:
        raise DataError("there are no measurements")
    if ys.ndim == 2:
        xs = np.repeat(xs, ys.shape[1])
        ys = ys.ravel()
    for name, values in (("parameter", xs), ("measurement", ys)):
        bad = ~(np.isfinite(values) & (values > _LEAST))
        if bad.any():
            at = int(np.argmax(bad))
            raise DataError(
                f"every {name} must be a positive finite number; number {at + 1} of {values.size} is "
                f"{values[at]:g}; leave such points out"
            )
    order = np.argsort(xs, kind="stable")
    xs, ys = xs[order], ys[order]
    distinct, starts = np.unique(xs, return_index=True)
    return Samples(distinct, tuple(np.split(ys, starts[1:])))
