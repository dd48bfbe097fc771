"""Repetition until an interval is narrow: what is asked for, and what became of it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import numpy as np

from labkit.errors import DataError
from labkit.text.html import quantity

__all__ = ["Conduct", "Interval", "Repeats", "Series", "interval", "least_values", "repeats_of"]


#: a start may be late by so much of a call's time, or by so much at all
LATE_SHARE, LATE_S = 0.01, 20e-6
#: the interval is computed whenever the number of values has grown by this factor: each look may stop early
_NEXT_LOOK = 1.15


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """Repetition of a real measurement until the interval of its median (or mean) is narrow.

    Attributes
    ----------
    within : float
        Both ends of the interval are at most this share of the value away from it; 0: never, `most` counts.
    level : float
        The interval's confidence.
    statistic : {"median", "mean"}
        Whose interval it is.
    least, most : int
        Valid repetitions at the least (of the median at 95 % an interval takes 6) and at the most.
    most_s : float
        From then on, and with `least` repetitions, it ends: seconds for each point.

    Raises
    ------
    DataError
        A number out of range.

    Notes
    -----
    Not reached, it is said in the notes of the run. The default, 5 % at 95 %, is that of [1]_.

    References
    ----------
    .. [1] S. Shudler et al.: Engineering algorithms for scalability through continuous validation of
       performance expectations. IEEE TPDS 30(8), 2019, section 3.1.2. doi:10.1109/TPDS.2019.2896993

    Examples
    --------
    >>> Repeats(within=0.02).most
    50
    """

    within: float = 0.05
    level: float = 0.95
    statistic: str = "median"
    least: int = 6
    most: int = 50
    most_s: float = 10.0

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise DataError(
                f"statistic must be one of: {', '.join(STATISTICS)}, got {self.statistic!r}",
                code="unknown-name",
            )
        for name, is_right, wanted in (
            ("within", _is_number(self.within) and 0 <= self.within < 1, "at least 0 and below 1"),
            ("level", _is_number(self.level) and 0 < self.level < 1, "above 0 and below 1"),
            ("least", _is_whole(self.least) and self.least >= 1, "an integer of at least 1"),
            ("most", _is_whole(self.most) and self.most >= self.least, "an integer of at least `least`"),
            ("most_s", _is_number(self.most_s) and self.most_s > 0, "above 0 seconds"),
        ):
            if not is_right:
                raise DataError(
                    f"repeats: {name} must be {wanted}, got {getattr(self, name)!r}", code="out-of-range"
                )
        needed = least_values(self.statistic, self.level)
        if self.within and self.most < needed:
            raise DataError(
                f"repeats: the {self.level:.0%} interval of a {self.statistic} takes {needed} repetitions, "
                f"and most is {self.most}; allow more, or take within=0 for a fixed number"
            )

    @property
    def is_fixed(self) -> bool:
        """Whether the number is fixed beforehand."""
        return self.least == self.most or self.within == 0

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data.

        Returns
        -------
        dict
            JSON-able; times in seconds.
        """
        return asdict(self)


def repeats_of(value: int | Repeats, limit_s: float | None = None) -> Repeats:
    """Return a number of repetitions as a plan, which leaves room within a time limit."""
    if isinstance(value, Repeats):
        if limit_s is None or value.most_s <= limit_s / 2:
            return value
        return Repeats(**{**asdict(value), "most_s": limit_s / 2})
    return Repeats(within=0.0, least=int(value), most=int(value))


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, numbers.Integral)


@dataclass
class Conduct:
    """How a series of real measurements was conducted: what a paper's section on methods has to say.

    Attributes
    ----------
    start : {"window", "barrier"}
        How the ranks were brought to start together.
    why_barrier : str
        Why not by windows.
    repeats, late, kept_late, warmup : int
        Valid repetitions; starts that were late and whose times were thrown away; late ones that were kept
        because there were too many of them; runs before the first that counted.
    asked : dict
        The `Repeats`.
    stopped : {"precise", "count", "most", "time"}
        Why it ended.
    low_s, value_s, high_s : float or None
        The interval reached.
    late_s : float
        Lateness that counts: seconds, or `LATE_SHARE` of the time.
    clock_bound_s, clock_offset_s, clock_drift : float
        How well the ranks' clocks are known by rank 0's, and how much they differed at the most.
    own_clocks : int
        Ranks whose clock is not that of rank 0.
    """

    start: str = "window"
    why_barrier: str = ""
    repeats: int = 0
    late: int = 0
    kept_late: int = 0
    warmup: int = 0
    asked: dict[str, Any] = field(default_factory=dict)
    stopped: str = "count"
    value_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    late_s: float = LATE_S
    clock_bound_s: float = 0.0
    clock_offset_s: float = 0.0
    clock_drift: float = 0.0
    own_clocks: int = 0

    @classmethod
    def of(cls, row: object) -> Conduct | None:
        """Read one that was kept as plain data; None where it is not one."""
        names, whole = cls.__dataclass_fields__, ("repeats", "late", "kept_late", "warmup", "own_clocks")
        if not isinstance(row, Mapping) or not names.keys() - {"why_barrier"} <= row.keys():
            return None
        known = {name: row[name] for name in names if name in row}
        numbers_ok = all(
            _is_whole(value) if name in whole else value is None or _is_number(value)
            for name, value in known.items()
            if name in whole or name.endswith(("_s", "_drift"))
        )
        try:
            asked = Repeats(**known["asked"]).to_dict()
        except (TypeError, DataError):
            return None
        is_text = all(isinstance(known.get(name, ""), str) for name in ("start", "why_barrier", "stopped"))
        given = ("late_s", "clock_bound_s", "clock_offset_s", "clock_drift")
        is_given = all(known[name] is not None for name in given)
        return cls(**{**known, "asked": asked}) if numbers_ok and is_text and is_given else None

    @property
    def reach(self) -> float | None:
        """How far the interval's farther end is from the value, as a share; None without an interval."""
        if self.value_s is None or self.low_s is None or self.high_s is None or self.value_s <= 0:
            return None
        return max(self.high_s - self.value_s, self.value_s - self.low_s) / self.value_s

    @property
    def is_precise(self) -> bool:
        """Whether the interval that was asked for was reached."""
        reach, within = self.reach, float(self.asked.get("within", 0.0))
        return bool(within) and reach is not None and reach <= within

    def notes(self) -> list[str]:
        """Return the caveats for readers of the figures."""
        said = []
        if float(self.asked.get("within", 0.0)) and not self.is_precise:
            wanted, reach = self.asked["within"], self.reach
            got = "has no interval yet" if reach is None else f"is known to within {reach:.1%} only"
            why = {
                "time": f"the {self.asked['most_s']:g} s for a point had passed",
                "most": "the maximum number was reached",
            }.get(self.stopped, "it ended")
            said.append(
                f"after {self.repeats} repetitions the {self.asked['statistic']} {got}, not {wanted:.0%} as "
                f"wanted: {why}; allow more (repeats=lk.Repeats(most=..., most_s=...)), or a quieter machine"
            )
        if self.kept_late:
            said.append(
                f"{self.kept_late} of {self.repeats} repetitions began late on some rank and were kept, as "
                f"{self.late} others had been thrown away already: something else uses the cores"
            )
        return said

    def text(self) -> str:
        """Summarize in one line how it was measured."""
        started = "by windows" if self.start == "window" else f"behind a barrier ({self.why_barrier})"
        parts = [f"{self.repeats} repetitions", f"started {started}"]
        if self.start == "window":
            parts.append(f"{self.late} late starts discarded")
        if self.reach is not None:
            parts.append(f"{self.asked.get('statistic', 'median')} within {self.reach:.1%}")
        if self.own_clocks:
            parts.append(f"clocks known to {quantity(self.clock_bound_s, 's', 3)}")
        return ", ".join(parts)


class Series:
    """Times that come in one by one, and whether they are enough; the same on every rank.

    `warmup`: Runs that come first and do not count.
    """

    def __init__(self, asked: Repeats, warmup: int = 0) -> None:
        self.asked, self.warmup = asked, warmup
        self.times_s: list[float] = []
        self.late = self.kept_late = self.warmed = 0
        self.stopped = ""
        self._look = max(asked.least, least_values(asked.statistic, asked.level))

    @property
    def number(self) -> int:
        """The number of the next run that is kept, runs before the first that counts included."""
        return self.warmed + len(self.times_s)

    def take(self, time_s: float, late_s: float, elapsed_s: float) -> bool:
        """Take a run in, and return whether it is kept (as a warm-up or as a valid one).

        `time_s`, `late_s`: From the start to the last rank's end, and how late the latest rank began.
        `elapsed_s`: Since the beginning of the series.
        """
        if self.warmed < self.warmup:
            self.warmed += 1
            return True
        if late_s > max(LATE_S, LATE_SHARE * time_s):
            if self.late < self.asked.most:
                self.late += 1
                return False
            self.kept_late += 1
        self.times_s.append(time_s)
        self._decide(elapsed_s)
        return True

    def _decide(self, elapsed_s: float) -> None:
        n, asked = len(self.times_s), self.asked
        if asked.within and n >= self._look:
            self._look = max(n + 1, math.ceil(n * _NEXT_LOOK))
            if self.interval().reach <= asked.within:
                self.stopped = "precise"
                return
        if n >= asked.most:
            self.stopped = "count" if asked.is_fixed else "most"
        elif n >= asked.least and elapsed_s > asked.most_s:
            self.stopped = "time"

    def interval(self) -> Interval:
        """Return the interval of what was taken so far."""
        return interval(self.times_s, self.asked.statistic, self.asked.level)

    def conduct(self) -> Conduct:
        """Describe how it went."""
        found = self.interval() if self.times_s else None
        known = found is not None and math.isfinite(found.low + found.high)
        return Conduct(
            repeats=len(self.times_s),
            late=self.late,
            kept_late=self.kept_late,
            warmup=self.warmup,
            asked=self.asked.to_dict(),
            stopped=self.stopped,
            value_s=found.value if found else None,
            low_s=found.low if found and known else None,
            high_s=found.high if found and known else None,
        )


# Confidence intervals of what repeated measurements center on: the median (from ranks), or the mean.


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
        raise DataError(f"statistic must be one of: median, mean; got {statistic!r}", code="unknown-name")
    if not 0 < level < 1:
        raise DataError(
            f"the confidence level must be above 0 and below 1, got {level!r}", code="out-of-range"
        )
    ordered = np.sort(np.asarray(values, np.float64))
    n = int(ordered.size)
    if not n or not np.isfinite(ordered).all():
        raise DataError("an interval needs at least one value, and all must be finite", code="not-finite")
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
