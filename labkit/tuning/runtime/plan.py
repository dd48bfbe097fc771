"""The plan of a request: how it searches, measures and watches."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import hypot
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.tuning.runtime.codelets import Codelet

__all__ = [
    "ESTIMATORS",
    "TIMINGS",
    "BruteForce",
    "ByAttributes",
    "Cluster",
    "Drop",
    "Halving",
    "InterquartileRange",
    "Mean",
    "Monitor",
    "Search",
    "StudentT",
    "TuningPlan",
    "estimator_of",
    "plan_of",
    "search_of",
]


#: timing methods of a request itself; with a timer its region is timed, at every pass or over several
TIMINGS = ("barrier", "nobarrier")


@dataclass(frozen=True)
class Monitor:
    """When production is looked at again.

    The first `calls` calls after a decision are timed, and again `calls` calls in every `every`. Where their
    estimate is farther than `tolerance` from the first one, the next calls are timed as well; if they say the
    same, the search begins again.

    `tolerance`: Such as 0.25: a quarter slower, or faster by as much.
    Raises DataError: A number out of range.
    """

    every: int = 200
    calls: int = 10
    tolerance: float = 0.25

    def __post_init__(self) -> None:
        for name, least in (("calls", 1), ("every", self.calls)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise DataError(
                    f"monitor: {name} must be an integer of at least {least}, got {value!r}",
                    code="out-of-range",
                )
        if not 0 < self.tolerance < float("inf"):
            raise DataError(
                f"monitor: tolerance must be above 0, got {self.tolerance!r}", code="out-of-range"
            )

    def is_off(self, ratio: float) -> bool:
        """Whether this multiple of the first estimate is a change."""
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

        Raises DataError: There is no time, or one that is negative or not finite.

        Examples
        --------
        >>> times = [10.0] * 18 + [11.0, 200.0]
        >>> [round(ESTIMATORS[name]().of(times), 2) for name in ("mean", "drop", "iqr", "student")]
        [19.55, 10.05, 10.0, 10.0]
        """
        values = np.asarray(times, np.float64)
        if values.size == 0 or not np.isfinite(values).all() or (values < 0).any():
            raise DataError(
                f"an estimate takes at least one time in seconds >= 0, got {times!r}", code="not-enough-data"
            )
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

    `bound`: Above 1.
    `most`: At least 0 and below 1; rounded down, but at least one time may be dropped unless it is 0.
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

    `most`: At least 0 and below 1; rounded down, but at least one time may go unless it is 0.
    `apart`: At least 1.
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

    `degrees`: Degrees of freedom, 4 to 6 by experience: fewer weigh far values down more. None: they are
        estimated with the rest.
    """

    name: ClassVar[str] = "student"
    degrees: float | None = 4.0

    def __post_init__(self) -> None:
        _require(self, "degrees", self.degrees is None or self.degrees > 0, "above 0, or None")

    def kept(self, times: Floats) -> NDArray[np.bool_]:
        """Return which times are no outliers."""
        center, scale = self._start(times)  # what weighs less than half
        nu = self.degrees or 4.0
        kept: NDArray[np.bool_] = (times - center) ** 2 <= nu * max(scale, 1e-12 * center) ** 2 * (1 + 2 / nu)
        return kept

    def local(self, times: Floats) -> list[float]:
        """Return the location."""
        center, scale = self._start(times)
        if scale <= 1e-12 * float(times.max()) or times.size < 3:  # nothing that a clock can resolve
            return [center if times.size > 2 else float(times.mean())]
        from scipy.optimize import minimize

        scaled = (times - center) / scale
        guess = [0.0, 0.0] if self.degrees else [0.0, 0.0, math.log(4.0)]
        found = minimize(self._loss, guess, (scaled,), method="Nelder-Mead", options={"xatol": 1e-6})
        return [center + scale * float(found.x[0])]

    def _start(self, times: Floats) -> tuple[float, float]:
        center = float(np.median(times))
        return center, _MAD_TO_SIGMA * float(np.median(np.abs(times - center)))

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


def estimator_of(value: object) -> Estimator:
    """Return an estimator, of its name or itself."""
    if isinstance(value, Estimator):
        return value
    if isinstance(value, str) and value in ESTIMATORS:
        return ESTIMATORS[value]()
    raise DataError(
        f"estimator must be one of: {', '.join(ESTIMATORS)}, or an object such as "
        f"labkit.tune.Drop(bound=3); got {value!r}",
        code="unknown-name",
    )


def _allowed(share: float, count: int) -> int:
    """Return how many of the times may be left out."""
    return max(1, int(share * count)) if share else 0


def _require(what: Estimator, name: str, is_right: bool, wanted: str) -> None:
    if not is_right:
        raise DataError(
            f"estimator {what.name}: {name} is {wanted}, got {getattr(what, name)!r}", code="out-of-range"
        )


@dataclass(frozen=True)
class TuningPlan:
    """How a request or a timer tunes; see `labkit.tune`'s methods for the options."""

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
    search: str = "brute force",
    estimator: object = "drop",
    timing: str = "barrier",
    measurements: int = 20,
    warmup: int = 1,
    use: str | None = None,
    history: str | os.PathLike[str] | None = None,
    similar: float = 0.05,
    monitor: Monitor | bool | None = None,
) -> TuningPlan:
    """Return the settings, checked."""
    search_of(search)
    if timing not in TIMINGS:
        raise DataError(
            f"timing must be one of: {', '.join(map(repr, TIMINGS))}, got {timing!r}; a region with "
            "communication and computation is timed by lk.tune.timer(comm, request, every=...)",
            code="unknown-name",
        )
    for name, value, least in (("measurements", measurements, 1), ("warmup", warmup, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise DataError(
                f"{name} must be an integer of at least {least}, got {value!r}", code="out-of-range"
            )
    if isinstance(similar, bool) or not isinstance(similar, int | float) or not 0 <= similar < 1:
        raise DataError(f"similar must be at least 0 and below 1, got {similar!r}", code="out-of-range")
    if monitor is True:
        monitor = Monitor()
    if monitor and not isinstance(monitor, Monitor):
        raise DataError(
            f"monitor must be True or labkit.tune.Monitor(every=...), got {monitor!r}", code="wrong-type"
        )
    return TuningPlan(
        search,
        estimator_of(estimator),
        timing,
        measurements,
        warmup,
        use,
        None if history is None else Path(history),
        float(similar),
        monitor or None,
    )


# Searches: which codelet is measured next, and which one is the fastest.
#
# `BruteForce` measures all. `ByAttributes` fixes one attribute after the other, as ADCL does: it compares
# codelets that differ in that attribute only, has a second pair confirm what the first one says, and leaves
# out all codelets with the slower value. ADCL takes attributes for independent, and a codelet for what its
# attributes are; in collectives neither holds (few rounds or few bytes: that changes with the size). So
# comparisons take a few measurements only, a value is out where no codelet with it comes near, and what is
# then left is measured: all a few times, and the fastest in full.
#
# `Halving` measures all a few times, and only the fastest of them as often as brute force does. It asks for
# no attributes.
#
# All are driven in the same way on all ranks, by estimates that all ranks have: they need no messages.
#
# References
# ----------
# .. [1] E. Gabriel, S. Huang: Runtime optimization of application level communication patterns. IPDPS 2007.
# .. [2] Z. Karnin, T. Koren, O. Somekh: Almost optimal exploration in multi-armed bandits. ICML 2013, PMLR
#    28(3).


#: of the measurements of a codelet this part is made of all of them first
_FIRST_PART = 5
#: who was left out is taken after all where it was faster than the rest turn out to be by so much
_CLEARLY = 0.8
#: two codelets differ clearly from this ratio and this number of standard errors on
_WORTH, _SIGMAS = 1.25, 3.0
#: of two values of an attribute at the most
_COMPARISONS = 4


class Search(ABC):
    """Names codelets to measure, one by one, and gets their times.

    `codelets`: That can be used.
    `points`, `warmup`: Measurements of a codelet, and calls before them that do not count.
    `times`: Name to seconds, of those measured.
    `errors`: Name to the standard error of these seconds.
    `words`: What was found during the run, as sentences.
    """

    name: ClassVar[str]
    #: whether what is measured of a codelet at several times is estimated together
    is_joined: ClassVar[bool] = False

    def __init__(self, codelets: Sequence[Codelet], points: int = 20, warmup: int = 1) -> None:
        self.codelets, self.points, self.warmup = tuple(codelets), points, warmup
        #: measurements of the current codelet
        self.needed = points
        self.times: dict[str, float] = {}
        self.errors: dict[str, float] = {}
        self.words: list[str] = []
        self._plan = self._steps()
        self.current: Codelet | None = next(self._plan, None)

    @abstractmethod
    def _steps(self) -> Iterator[Codelet]:
        """Yield codelets to measure; when it goes on, the last one's time is known."""

    def tell(self, time_s: float, error_s: float = 0.0) -> None:
        """Pass in the current codelet's time and its standard error, and move on to the next codelet."""
        if self.current is None:
            raise DataError("the search is over", code="wrong-order")
        self.times[self.current.name], self.errors[self.current.name] = time_s, error_s
        self.current = next(self._plan, None)

    @property
    def counted(self) -> str:
        """How many times each is measured, as a part of a sentence."""
        return f"{self.points} of each"

    @property
    def winner(self) -> str:
        """The fastest of those measured, the first of equals."""
        return min(self.times, key=lambda name: self.times[name])


class BruteForce(Search):
    """All codelets, in their order."""

    name = "brute force"

    def _steps(self) -> Iterator[Codelet]:
        yield from self.codelets


class ByAttributes(Search):
    """One attribute after the other, by a few measurements; then those that are left, the fastest in full.

    Values of an attribute are compared by codelets that differ in it alone. A value is out where it loses
    clearly in two comparisons, wins clearly in none, and none of the codelets measured with it comes near to
    the fastest one without it. A difference is clear where it is larger than the noise of both. So attributes
    that depend on each other leave their codelets in. All in all it makes half of brute force's calls at the
    most.
    """

    name = "attributes"
    is_joined = True

    def __init__(self, codelets: Sequence[Codelet], points: int = 20, warmup: int = 1) -> None:
        self.first, self.lot = max(1, points // _FIRST_PART), max(1, points // 2)
        self._calls_left = len(codelets) * (points + warmup) // 2
        self._lots: dict[str, int] = {}
        super().__init__(codelets, points, warmup)

    def _steps(self) -> Iterator[Codelet]:
        left = list(self.codelets)
        for attribute in self._attributes():
            left = yield from self._fixed(attribute, left)
        for codelet in self._by_promise(left):
            yield from self._measured(codelet, self.first)
        while (finalist := self._next_finalist(left)) is not None:
            yield from self._measured(finalist, self.lot)
            self._lots[finalist.name] = self._lots.get(finalist.name, 0) + 1

    def _attributes(self) -> list[str]:
        """Attributes by how many codelets have them: what concerns most comes first."""
        counts: dict[str, int] = {}
        for codelet in self.codelets:
            for name in codelet.attributes:
                counts[name] = counts.get(name, 0) + 1
        return sorted(counts, key=lambda name: -counts[name])

    def _measured(self, codelet: Codelet, points: int) -> Iterator[Codelet]:
        """Yield a codelet if its calls are still allowed; the first one always is."""
        calls = points + self.warmup
        if not self.times or calls <= self._calls_left:
            self.needed = points
            self._calls_left -= calls
            yield codelet

    def _is_clear(self, slower: str, faster: str) -> bool:
        """Whether one codelet is slower by more than both times' noise."""
        more = self.times[slower] - self.times[faster]
        noise = hypot(self.errors[slower], self.errors[faster])
        return self.times[slower] > _WORTH * self.times[faster] and more > _SIGMAS * noise

    def _fixed(self, attribute: str, left: list[Codelet]) -> Generator[Codelet, None, list[Codelet]]:
        """Compare values of an attribute, two at a time; return the codelets that are left."""
        pairs = [
            pair
            for pair in combinations([one for one in left if attribute in one.attributes], 2)
            if pair[0].differs_in(pair[1]) == [attribute]
        ]
        made: dict[frozenset[Hashable], int] = {}
        won: dict[tuple[Hashable, Hashable], int] = {}
        out: set[Hashable] = set()
        while pairs:
            pair = min(pairs, key=self._effort)
            pairs.remove(pair)
            values = frozenset(one.attributes[attribute] for one in pair)
            if values & out or made.get(values, 0) == _COMPARISONS:
                continue
            for one in pair:
                if one.name not in self.times:
                    yield from self._measured(one, self.first)
            if any(one.name not in self.times for one in pair):
                break
            made[values] = made.get(values, 0) + 1
            best, worst = sorted(pair, key=lambda one: self.times[one.name])
            better, worse = best.attributes[attribute], worst.attributes[attribute]
            if not self._is_clear(worst.name, best.name):
                continue
            won[better, worse] = won.get((better, worse), 0) + 1
            if won.get((worse, better)):
                self.words.append(f"{attribute}: {better} or {worse}? Two comparisons disagree; both stay")
                made[values] = _COMPARISONS
            elif won[better, worse] == 2 and self._is_beaten(attribute, worse, left):
                out.add(worse)
                kept = [one for one in left if one.attributes.get(attribute) != worse]
                gone = len(left) - len(kept)
                self.words.append(
                    f"{attribute}: {better} is clearly faster than {worse} in two comparisons; "
                    f"{gone} codelet{'s' if gone > 1 else ''} with {worse} {'are' if gone > 1 else 'is'} out"
                )
                left = kept
        return left

    def _effort(self, pair: tuple[Codelet, Codelet]) -> tuple[int, int]:
        """How many of a pair are to be measured first, and how far it is from the fastest codelet so far."""
        fastest = self._codelet(self.winner) if self.times else self.codelets[0]
        new = sum(one.name not in self.times for one in pair)
        return new, min(len(fastest.differs_in(one)) for one in pair)

    def _is_beaten(self, attribute: str, value: Hashable, left: list[Codelet]) -> bool:
        """Whether no codelet measured with a value comes near to the fastest one without it."""
        known = [one for one in left if one.name in self.times]
        own = [one.name for one in known if one.attributes.get(attribute) == value]
        others = [one.name for one in known if one.attributes.get(attribute) != value]
        best = min(others, key=lambda name: self.times[name])
        return all(self._is_clear(name, best) for name in own)

    def _codelet(self, name: str) -> Codelet:
        return next(one for one in self.codelets if one.name == name)

    def _by_promise(self, left: list[Codelet]) -> Iterator[Codelet]:
        """Yield what is left, the nearest to the fastest one so far first."""
        rest = [one for one in left if one.name not in self.times]
        while rest:
            if self.times:
                fastest = self._codelet(self.winner)
                rest.sort(key=lambda one: len(fastest.differs_in(one)))
            yield rest.pop(0)

    def _next_finalist(self, left: list[Codelet]) -> Codelet | None:
        """Return who is measured once more: of the two fastest, the one with fewer measurements."""
        if self.lot + self.warmup > self._calls_left:
            return None
        known = sorted((one for one in left if one.name in self.times), key=lambda one: self.times[one.name])
        open_ones = [one for one in known if self._lots.get(one.name, 0) < 2]
        chosen = [one for one in known[:2] if one in open_ones] or open_ones[:1]
        return min(chosen, key=lambda one: self._lots.get(one.name, 0), default=None)

    @property
    def counted(self) -> str:
        """How many times each is measured, as a part of a sentence."""
        if not self._lots:
            return f"{self.first} of each"
        more = f"{self.lot} or {2 * self.lot} more" if len(set(self._lots.values())) > 1 else None
        more = more or f"{self.lot * next(iter(self._lots.values()))} more"
        return f"{self.first} of each, then {more} of {len(self._lots)} that seemed the fastest"

    @property
    def winner(self) -> str:
        """The fastest of those measured most, unless it turns out to be clearly slower than others."""
        return _confirmed(self.times, list(self._lots))


class Halving(Search):
    """All a few times, then the fastest of them in full: half of brute force's calls at the most.

    Where that leaves no two to be measured in full, all are measured half as often. (Of one measurement each
    there is no half.)
    """

    name = "halving"

    def __init__(self, codelets: Sequence[Codelet], points: int = 20, warmup: int = 1) -> None:
        whole, count = points + warmup, len(codelets)
        first = max(1, points // _FIRST_PART)
        finalists = (count * whole // 2 - count * (first + warmup)) // whole
        if finalists < 2:
            first, finalists = max(1, whole // 2 - warmup), 0
        self.first, self.finalists = first, finalists
        self._final: list[str] = []
        super().__init__(codelets, points, warmup)

    def _steps(self) -> Iterator[Codelet]:
        self.needed = self.first
        yield from self.codelets
        self.needed = self.points
        order = sorted(self.codelets, key=lambda one: self.times[one.name])
        for codelet in order[: self.finalists]:
            yield codelet
            self._final.append(codelet.name)
        if self.finalists:
            out = order[self.finalists]
            self.words.append(f"{out.name} was the first to be left out, after {self.first} measurements")

    @property
    def counted(self) -> str:
        """How many times each is measured, as a part of a sentence."""
        if not self.finalists:
            return f"{self.first} of each"
        return f"{self.first} of each, then {self.points} of the {self.finalists} fastest"

    @property
    def winner(self) -> str:
        """The fastest of those measured in full, unless it turns out to be clearly slower than others."""
        return _confirmed(self.times, self._final)


def _confirmed(times: Mapping[str, float], final: Sequence[str]) -> str:
    """Return the fastest of the finalists, or any other codelet that is clearly faster."""
    fastest = min(times, key=lambda name: times[name])
    if not final:
        return fastest
    best = min(final, key=lambda name: times[name])
    return fastest if times[fastest] < _CLEARLY * times[best] else best


#: name -> search
SEARCHES: dict[str, type[Search]] = {kind.name: kind for kind in (BruteForce, ByAttributes, Halving)}


def search_of(value: str) -> type[Search]:
    """Return a search by its name."""
    if value not in SEARCHES:
        raise DataError(
            f"search must be one of: {', '.join(map(repr, SEARCHES))}, got {value!r}", code="unknown-name"
        )
    return SEARCHES[value]
