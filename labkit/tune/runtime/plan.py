"""The plan of a request: how it searches, measures and watches."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.errors import DataError
from labkit.tune.runtime.estimators import Estimator, estimator_of
from labkit.tune.runtime.search import search_of

__all__ = ["TIMINGS", "Monitor", "Plan", "plan_of"]

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
    """Return the settings, checked.

    Raises
    ------
    DataError
        A word or number that is none of those allowed.
    """
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
