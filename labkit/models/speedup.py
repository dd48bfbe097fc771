"""The laws of speed-up: Amdahl's, Gustafson's, the serial share of Karp and Flatt, and isoefficiency.

References
----------
G. M. Amdahl: Validity of the single processor approach to achieving large scale computing capabilities. AFIPS
1967, doi:10.1145/1465482.1465560. J. L. Gustafson: Reevaluating Amdahl's law. CACM 31(5), 1988,
doi:10.1145/42411.42415. A. H. Karp, H. P. Flatt: Measuring parallel processor performance. CACM 33(5), 1990,
doi:10.1145/78607.78614. A. Y. Grama, A. Gupta, V. Kumar: Isoefficiency: measuring the scalability of parallel
algorithms and architectures. IEEE Parallel & Distributed Technology 1(3), 1993, doi:10.1109/88.242438.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit.errors import DataError

__all__ = ["Amdahl", "Gustafson", "isoefficiency", "karp_flatt"]

Floats = NDArray[np.float64]
_MOST_WORK = 1e30


@dataclass(frozen=True)
class Amdahl:
    """The same work on more ranks: a share f of it is done by one rank, the rest is divided evenly.

    Attributes
    ----------
    serial_share : float
        f, from 0 to 1: of the time on one rank.
    one_rank_s : float
        T(1), in seconds.

    Examples
    --------
    >>> law = Amdahl(0.05)
    >>> round(law.speedup(16), 2), law.limit
    (9.14, 20.0)
    """

    serial_share: float
    one_rank_s: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        _require_share(self.serial_share)
        if not 0 < self.one_rank_s < math.inf:
            raise DataError(
                f"one_rank_s must be a time above 0 seconds, got {self.one_rank_s!r}", code="out-of-range"
            )

    @property
    def limit(self) -> float:
        """The speed-up that no number of ranks exceeds: 1/f."""
        return 1 / self.serial_share if self.serial_share else math.inf

    def seconds(self, ranks: ArrayLike) -> Any:
        """Return T(p) = T(1) (f + (1 - f)/p)."""
        p = _checked(ranks)
        return _plain(self.one_rank_s * (self.serial_share + (1 - self.serial_share) / p))

    def speedup(self, ranks: ArrayLike) -> Any:
        """Return S(p) = 1 / (f + (1 - f)/p)."""
        return _plain(1 / (self.serial_share + (1 - self.serial_share) / _checked(ranks)))

    def efficiency(self, ranks: ArrayLike) -> Any:
        """Return S(p)/p."""
        return _plain(np.asarray(self.speedup(ranks)) / _checked(ranks))

    @classmethod
    def fit(cls, ranks: ArrayLike, seconds: ArrayLike) -> Amdahl:
        """Fit the law to times: least squares of the relative errors, both parts >= 0.

        Parameters
        ----------
        ranks, seconds : array_like, shape (m,)
            At least two different numbers of ranks, and times > 0.

        Raises
        ------
        DataError
            Fewer, or times that are none.

        Examples
        --------
        >>> law = Amdahl.fit([1, 2, 4, 8], [10.0, 6.0, 4.0, 3.0])
        >>> round(law.serial_share, 6), round(law.one_rank_s, 6)
        (0.2, 10.0)
        """
        p, times = _checked(ranks), np.atleast_1d(np.asarray(seconds, np.float64))
        if p.ndim != 1 or p.shape != times.shape or len(np.unique(p)) < 2:
            raise DataError(
                f"Amdahl's law is fitted to times at two different numbers of ranks or more; got "
                f"{np.size(ranks)} numbers of ranks and {np.size(seconds)} times",
                code="not-enough-data",
            )
        if not (np.isfinite(times).all() and (times > 0).all()):
            raise DataError(
                f"times must be finite and above 0 seconds, got {times.tolist()}", code="not-finite"
            )
        from scipy.optimize import nnls

        (serial, parallel), _ = nnls(np.column_stack([1 / times, 1 / (p * times)]), np.ones(len(p)))
        return cls(float(serial / (serial + parallel)), float(serial + parallel))


@dataclass(frozen=True)
class Gustafson:
    """More work on more ranks, each as long busy as before: scaled speed-up.

    Attributes
    ----------
    serial_share : float
        s, from 0 to 1: of the time on the *parallel* machine (Amdahl's f is of the time on one rank).

    Examples
    --------
    >>> round(Gustafson(0.05).speedup(16), 2)
    15.25
    """

    serial_share: float

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        _require_share(self.serial_share)

    def speedup(self, ranks: ArrayLike) -> Any:
        """Return the scaled speed-up s + (1 - s) p."""
        return _plain(self.serial_share + (1 - self.serial_share) * _checked(ranks))

    def efficiency(self, ranks: ArrayLike) -> Any:
        """Return the scaled speed-up, divided by p."""
        return _plain(np.asarray(self.speedup(ranks)) / _checked(ranks))


def karp_flatt(ranks: ArrayLike, speedup: ArrayLike) -> Any:
    """Return the experimentally determined serial share e = (1/S - 1/p) / (1 - 1/p).

    Constant e: a serial part limits the speed-up. An e that grows with p: overheads do.

    Parameters
    ----------
    ranks : array_like
        p > 1.
    speedup : array_like
        S measured there, > 0.

    Raises
    ------
    DataError
        For one rank, or a speed-up that is none.

    Examples
    --------
    >>> round(karp_flatt(16, Amdahl(0.05).speedup(16)), 10)
    0.05
    """
    p, measured = _checked(ranks), np.asarray(speedup, np.float64)
    if (p <= 1).any() or not (measured > 0).all():
        raise DataError(
            f"a serial share needs p > 1 and a speed-up > 0, got p = {ranks!r} and S = {speedup!r}",
            code="out-of-range",
        )
    return _plain((1 / measured - 1 / p) / (1 - 1 / p))


def isoefficiency(
    overhead_s: Callable[[float, float], float], ranks: float, efficiency: float = 0.8
) -> float:
    """Return how much work keeps p ranks efficient: W with W / (W + T_o(p, W)) = E.

    Parameters
    ----------
    overhead_s : callable
        ``overhead_s(ranks, work_s)``: T_o = p T(p) - T(1), what all ranks together spend beyond the work
        itself, in seconds; W itself is in seconds of one rank. It has to grow more slowly than W does.
    ranks : float
        p >= 1.
    efficiency : float
        E, above 0 and below 1.

    Returns
    -------
    float
        W in seconds of one rank; 0 where there is no overhead.

    Raises
    ------
    DataError
        No amount of work below 1e30 s is enough: the program is not scalable at this efficiency.

    Examples
    --------
    A reduction over p ranks of 1 µs a step: W grows as p log p.

    >>> import math
    >>> round(1e6 * isoefficiency(lambda p, work: 1e-6 * p * math.log2(p), 16, 0.8))
    256
    """
    if not 0 < efficiency < 1:
        raise DataError(f"efficiency must be above 0 and below 1, got {efficiency!r}", code="out-of-range")
    p = float(_checked(ranks))
    ratio = efficiency / (1 - efficiency)

    def missing(work: float) -> float:
        return ratio * overhead_s(p, work) - work

    low = high = 1e-15
    while missing(high) > 0:
        low, high = high, 4 * high
        if high > _MOST_WORK:
            raise DataError(
                f"no amount of work makes {p:g} ranks {efficiency:.0%} efficient: the overhead grows as the "
                "work does",
                code="unsupported",
            )
    if low == high:
        return 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if missing(middle) > 0 else (low, middle)
    return 0.5 * (low + high)


def _checked(ranks: ArrayLike) -> Floats:
    p = np.asarray(ranks, np.float64)
    if p.size == 0 or not (np.isfinite(p).all() and (p >= 1).all()):
        raise DataError(f"numbers of ranks must be at least 1, got {ranks!r}", code="out-of-range")
    return p


def _require_share(share: float) -> None:
    if isinstance(share, bool) or not 0 <= share <= 1:
        raise DataError(f"the serial share must be between 0 and 1, got {share!r}", code="out-of-range")


def _plain(values: Any) -> Any:
    """Return one number as a float, several as an array."""
    return float(values) if np.ndim(values) == 0 else values
