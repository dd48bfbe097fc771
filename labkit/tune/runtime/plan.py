"""The plan of a request: how it searches, measures and watches."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.tune.runtime.search import search_of

__all__ = [
    "ESTIMATORS",
    "TIMINGS",
    "Cluster",
    "Drop",
    "InterquartileRange",
    "Mean",
    "Monitor",
    "Plan",
    "StudentT",
    "estimator_of",
    "plan_of",
]

#: timing methods of a request itself; with a timer its region is timed, at every pass or over several
TIMINGS = ("barrier", "nobarrier")


@dataclass(frozen=True)
class Monitor:
    """When production is looked at again.

    The first `calls` calls after a decision are timed, and again so many every `every` calls. Where their
    estimate is farther than `tolerance` from the first one, the next calls are timed as well; if they say the
    same, the search begins again.

    Attributes
    ----------
    every, calls : int
    tolerance : float
        Such as 0.25: a quarter slower, or faster by as much.

    Raises
    ------
    DataError
        A number out of range.
    """

    every: int = 200
    calls: int = 10
    tolerance: float = 0.25

    def __post_init__(self) -> None:
        for name, least in (("calls", 1), ("every", self.calls)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise DataError(f"monitor: {name} must be an integer of at least {least}, got {value!r}")
        if not 0 < self.tolerance < float("inf"):
            raise DataError(f"monitor: tolerance must be above 0, got {self.tolerance!r}")

    def is_off(self, ratio: float) -> bool:
        """Whether so many times the first estimate is a change."""
        return ratio > 1 + self.tolerance or ratio * (1 + self.tolerance) < 1


# Estimators: what a codelet takes, from times among which there are outliers.
#
# Every rank filters its own times of a codelet, the maximum over the ranks is what the codelet takes, and
# the
# codelet with the least of it wins. The four ways differ in what they hold for an outlier. Times that are
# long
# *again and again*, such as those behind a dropped packet, are none: they belong to the codelet. `Drop` and
# `Cluster` keep them once they are more than a share of the values; `InterquartileRange` keeps them from a
# quarter on; `StudentT` weighs them down.
#
# References
# ----------
# .. [1] K. Benkert: Adaptive parallel communications for large-scale computational fluid dynamics.
#    Dissertation, Universität Stuttgart, 2011, section 5.2.
# .. [2] K. L. Lange, R. J. A. Little, J. M. G. Taylor: Robust statistical modeling using the t distribution.
#    Journal of the American Statistical Association 84(408), 1989. doi:10.1080/01621459.1989.10478852

Floats = NDArray[np.float64]

#: of normal values: the standard deviation over the median of the absolute deviations from the median
_MAD_TO_SIGMA = 1.483


class Estimator(ABC):
    """What a codelet takes: `local` on each rank, maxima over the ranks of each number, then `joined`."""

    name: ClassVar[str]

    @abstractmethod
    def kept(self, times: Floats) -> NDArray[np.bool_]:
        """Return which times are no outliers."""

    def local(self, times: Floats) -> list[float]:
        """Return what one rank's times say: numbers whose maxima over the ranks `joined` takes."""
        return [float(times[self.kept(times)].mean())]

    def joined(self, most: Sequence[float]) -> float:
        """Return the estimate, of the maxima over the ranks, in seconds."""
        return float(most[0])

    def outliers(self, times: Floats) -> int:
        """Return how many of one rank's times count as outliers."""
        return int((~self.kept(times)).sum())

    def of(self, times: Sequence[float] | Floats) -> float:
        """Return the estimate of one rank's times alone, in seconds.

        Raises
        ------
        DataError
            There is no time, or one that is negative or not finite.

        Examples
        --------
        >>> times = [10.0] * 18 + [11.0, 200.0]
        >>> [round(ESTIMATORS[name]().of(times), 2) for name in ("mean", "drop", "iqr", "student")]
        [19.55, 10.05, 10.0, 10.0]
        """
        values = np.asarray(times, np.float64)
        if values.size == 0 or not np.isfinite(values).all() or (values < 0).any():
            raise DataError(f"an estimate takes at least one time in seconds >= 0, got {times!r}")
        return self.joined(self.local(values))


@dataclass(frozen=True)
class Mean(Estimator):
    """The mean of all times: nothing is an outlier."""

    name: ClassVar[str] = "mean"

    def kept(self, times: Floats) -> NDArray[np.bool_]:
        """Return which times are no outliers."""
        return np.ones(times.shape, np.bool_)


@dataclass(frozen=True)
class Drop(Estimator):
    """Drop times above `bound` times the least, unless they are more than the share `most` on some rank.

    Attributes
    ----------
    bound : float
        Above 1.
    most : float
        At least 0 and below 1; rounded down, but at least one time may be dropped unless it is 0.
    """

    name: ClassVar[str] = "drop"
    bound: float = 2.0
    most: float = 0.1

    def __post_init__(self) -> None:
        _require(self, "bound", self.bound > 1, "above 1")
        _require(self, "most", 0 <= self.most < 1, "at least 0 and below 1")

    def kept(self, times: Floats) -> NDArray[np.bool_]:
        """Return which times are no outliers."""
        near: NDArray[np.bool_] = times <= self.bound * times.min()
        return near if (~near).sum() <= _allowed(self.most, times.size) else np.ones(times.shape, np.bool_)

    def local(self, times: Floats) -> list[float]:
        """Return the mean of what is kept, that of all, and whether too many are far."""
        near = times <= self.bound * times.min()
        is_many = (~near).sum() > _allowed(self.most, times.size)
        return [float(times[near].mean()), float(times.mean()), float(is_many)]

    def joined(self, most: Sequence[float]) -> float:
        """Return the mean of all where they are too many on some rank."""
        return float(most[1] if most[2] else most[0])


@dataclass(frozen=True)
class InterquartileRange(Estimator):
    """Leave out times more than `factor` interquartile ranges below the first or above the third quartile."""

    name: ClassVar[str] = "iqr"
    factor: float = 1.5

    def __post_init__(self) -> None:
        _require(self, "factor", self.factor >= 0, "at least 0")

    def kept(self, times: Floats) -> NDArray[np.bool_]:
        """Return which times are no outliers."""
        first, third = np.quantile(times, [0.25, 0.75])
        span = self.factor * (third - first)
        slack = 1e-12 * third  # equal times stay equal
        kept: NDArray[np.bool_] = (times >= first - span - slack) & (times <= third + span + slack)
        return kept


@dataclass(frozen=True)
class Cluster(Estimator):
    """Leave out small and distant clusters: hierarchical clustering by average linkage.

    From the root of the dendrogram on, the smaller branch goes where it is `apart` times as far from the
    larger one as that one's own branches from each other, as long as not more than the share `most` is gone.

    Attributes
    ----------
    most : float
        At least 0 and below 1; rounded down, but at least one time may go unless it is 0.
    apart : float
        At least 1.
    """

    name: ClassVar[str] = "cluster"
    most: float = 0.1
    apart: float = 3.0

    def __post_init__(self) -> None:
        _require(self, "most", 0 <= self.most < 1, "at least 0 and below 1")
        _require(self, "apart", self.apart >= 1, "at least 1")

    def kept(self, times: Floats) -> NDArray[np.bool_]:
        """Return which times are no outliers."""
        kept = np.ones(times.shape, np.bool_)
        if times.size < 3:
            return kept
        from scipy.cluster.hierarchy import linkage, to_tree

        node = to_tree(linkage(times[:, None], "average"))
        left = _allowed(self.most, times.size)
        while not node.is_leaf():
            small, large = sorted((node.left, node.right), key=lambda branch: branch.count)
            if small.count > left or small.count == large.count or node.dist <= self.apart * large.dist:
                break
            kept[small.pre_order()] = False
            left -= small.count
            node = large
        return kept


@dataclass(frozen=True)
class StudentT(Estimator):
    """Robust statistics: the location of a t-distribution with the greatest likelihood, by Nelder and Mead.

    The search begins at the median, with 1.483 times the median absolute deviation as the scale. Where more
    than half of the times are equal that deviation is 0 and the likelihood has no bound there: the estimate
    is that time.

    Attributes
    ----------
    degrees : float or None
        Degrees of freedom, 4 to 6 by experience: fewer weigh far values down more. None: they are estimated
        with the rest.
    """

    name: ClassVar[str] = "student"
    degrees: float | None = 4.0

    def __post_init__(self) -> None:
        _require(self, "degrees", self.degrees is None or self.degrees > 0, "above 0, or None")

    def kept(self, times: Floats) -> NDArray[np.bool_]:
        """Return which times are no outliers."""
        centre, scale = self._start(times)  # what weighs less than half
        nu = self.degrees or 4.0
        kept: NDArray[np.bool_] = (times - centre) ** 2 <= nu * max(scale, 1e-12 * centre) ** 2 * (1 + 2 / nu)
        return kept

    def local(self, times: Floats) -> list[float]:
        """Return the location."""
        centre, scale = self._start(times)
        if scale <= 1e-12 * float(times.max()) or times.size < 3:  # nothing that a clock tells apart
            return [centre if times.size > 2 else float(times.mean())]
        from scipy.optimize import minimize

        scaled = (times - centre) / scale
        guess = [0.0, 0.0] if self.degrees else [0.0, 0.0, math.log(4.0)]
        found = minimize(self._loss, guess, (scaled,), method="Nelder-Mead", options={"xatol": 1e-6})
        return [centre + scale * float(found.x[0])]

    def _start(self, times: Floats) -> tuple[float, float]:
        centre = float(np.median(times))
        return centre, _MAD_TO_SIGMA * float(np.median(np.abs(times - centre)))

    def _loss(self, at: Floats, scaled: Floats) -> float:
        """Return minus the log-likelihood, of location, log of the squared scale, log of the degrees."""
        log_psi = float(np.clip(at[1], -60, 60))
        nu = self.degrees or float(np.clip(math.exp(min(float(at[2]), 10.0)), 0.1, 1e3))
        terms = np.log1p((scaled - at[0]) ** 2 / (nu * math.exp(log_psi)))
        constant = math.lgamma((nu + 1) / 2) - math.log(nu) / 2 - math.lgamma(nu / 2)
        return float((nu + 1) / 2 * terms.sum() + scaled.size * (log_psi / 2 - constant))


#: name -> estimator
ESTIMATORS: dict[str, Callable[..., Estimator]] = {
    kind.name: kind for kind in (Mean, Drop, InterquartileRange, Cluster, StudentT)
}


def estimator_of(value: Any) -> Estimator:
    """Return an estimator, of its name or itself."""
    if isinstance(value, Estimator):
        return value
    if isinstance(value, str) and value in ESTIMATORS:
        return ESTIMATORS[value]()
    raise DataError(
        f"estimator must be one of: {', '.join(ESTIMATORS)}, or an object such as "
        f"labkit.tune.Drop(bound=3); got {value!r}"
    )


def _allowed(share: float, count: int) -> int:
    """How many of so many times may go."""
    return max(1, int(share * count)) if share else 0


def _require(what: Estimator, name: str, is_right: bool, wanted: str) -> None:
    if not is_right:
        raise DataError(f"estimator {what.name}: {name} is {wanted}, got {getattr(what, name)!r}")


@dataclass(frozen=True)
class Plan:
    """How a request or a timer tunes; see `labkit.tune`'s methods for the words."""

    search: str
    estimator: Estimator
    timing: str
    measurements: int
    warmup: int
    use: str | None
    history: Path | None
    similar: float
    monitor: Monitor | None


def plan_of(
    search: str = "brute force", estimator: Any = "drop", timing: str = "barrier", measurements: int = 20,
    warmup: int = 1, use: str | None = None, history: str | os.PathLike[str] | None = None,
    similar: float = 0.05, monitor: Monitor | bool | None = None,
) -> Plan:  # fmt: skip
    """Return the settings, checked."""
    search_of(search)
    if timing not in TIMINGS:
        raise DataError(
            f"timing must be one of: {', '.join(map(repr, TIMINGS))}, got {timing!r}; a region with "
            "communication and computation is timed by lk.tune.timer(comm, request, every=...)"
        )
    for name, value, least in (("measurements", measurements, 1), ("warmup", warmup, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise DataError(f"{name} must be an integer of at least {least}, got {value!r}")
    if isinstance(similar, bool) or not isinstance(similar, int | float) or not 0 <= similar < 1:
        raise DataError(f"similar must be at least 0 and below 1, got {similar!r}")
    if monitor is True:
        monitor = Monitor()
    if monitor and not isinstance(monitor, Monitor):
        raise DataError(f"monitor must be True or labkit.tune.Monitor(every=...), got {monitor!r}")
    return Plan(
        search, estimator_of(estimator), timing, measurements, warmup, use,
        None if history is None else Path(history), float(similar), monitor or None,
    )  # fmt: skip
