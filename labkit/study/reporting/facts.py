"""Facts of a study: what its rows and its notes say about how it was made, and nothing that they do not."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from labkit.study.rows import parameter_columns
from labkit.timing import Conduct, interval
from labkit.timing.interval import least_values

__all__ = ["Facts", "Point", "listed"]

#: points beyond this number are not looked at one by one
_MOST_POINTS = 2000


def listed(values: Any, most: int = 8) -> str:
    """Return values as a text: all of them, or the first ones and how many more there are."""
    shown = [f"{v:g}" if isinstance(v, float | np.floating) else str(v) for v in list(values)[:most]]
    rest = len(values) - len(shown)
    comma = "; " if any(", " in one for one in shown) else ", "
    if rest:
        return f"{comma.join(shown)} and {rest} more"
    return f"{comma.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)


@dataclass(frozen=True)
class Point:
    """The repetitions of one metric at one point."""

    name: str
    metric: str
    values: npt.NDArray[np.float64]

    @property
    def is_constant(self) -> bool:
        """Whether all repetitions are the same."""
        return bool(self.values.size) and bool((self.values == self.values[0]).all())


class Facts:
    """What is known of a study.

    Parameters
    ----------
    data : DataFrame
        Its rows.
    notes : mapping
        Its notes.
    """

    def __init__(self, data: pd.DataFrame, notes: Mapping[str, Any]) -> None:
        self.data, self.notes = data, notes

    def _mapping(self, name: str) -> dict[str, Any]:
        found = self.notes.get(name)
        return dict(found) if isinstance(found, Mapping) else {}

    @property
    def sweep(self) -> dict[str, Any]:
        """How the sweep was called; empty where that is not recorded."""
        return self._mapping("sweep")

    @cached_property
    def machines(self) -> dict[str, dict[str, Any]]:
        """The machines' descriptions by name."""
        return {str(k): dict(v) for k, v in self._mapping("machines").items() if isinstance(v, Mapping)}

    @property
    def simulated(self) -> dict[str, dict[str, Any]]:
        """The simulated ones."""
        return {k: v for k, v in self.machines.items() if "platform" in v and "kind" not in v}

    @property
    def real(self) -> dict[str, dict[str, Any]]:
        """The real ones."""
        return {k: v for k, v in self.machines.items() if "kind" in v}

    @property
    def unknown(self) -> list[str]:
        """Names of machines that are not described; an empty name stands for rows without one."""
        known = set(self.simulated) | set(self.real)
        return [str(v) for v in self.data["on"].unique() if str(v) not in known]

    @cached_property
    def conducts(self) -> list[Conduct]:
        """How each real point was measured, as far as that is recorded."""
        rows = self.notes.get("conduct")
        found = [Conduct.of(row) for row in rows] if isinstance(rows, list) else []
        return [one for one in found if one is not None]

    @property
    def failures(self) -> list[Any]:
        """The points that failed."""
        found = self.notes.get("failures")
        return list(found) if isinstance(found, list) else []

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether every row is of a simulation without noise that was not found to depend on the seed."""
        if self.sweep.get("is_deterministic") is False:
            return False
        machines = [self.simulated.get(str(v)) for v in self.data["on"].unique()]
        return all(one is not None and one.get("deterministic") and "noise" not in one for one in machines)

    @cached_property
    def times(self) -> pd.DataFrame:
        """The rows that a clock has measured: seconds, or, of machines not described, all without a unit."""
        rows = self.data[self.data["unit"] == "s"]
        if not len(rows):
            rows = self.data[(self.data["unit"] == "") & self.data["on"].astype(str).isin(self.unknown)]
        whole = rows[rows["metric"] == "makespan_s"]
        return whole if len(whole) else rows

    @cached_property
    def points(self) -> list[Point]:
        """The repetitions of the times at each point."""
        columns = ["program", "on", "model", *parameter_columns(self.data), "metric", "phase"]
        varying = [c for c in columns if self.times[c].nunique(dropna=False) > 1]
        if not len(self.times):
            return []
        if not varying:
            return [Point("the only point", "", self.times["value"].to_numpy(float))]
        groups = self.times.groupby(varying, sort=False, dropna=False)["value"]
        found = []
        for number, (key, values) in enumerate(groups):
            if number == _MOST_POINTS:
                break
            name = ", ".join(f"{c}={v}" for c, v in zip(varying, key, strict=True))
            found.append(Point(name, "", values.to_numpy(float)))
        return found

    @property
    def fewest(self) -> int:
        """The smallest number of repetitions of a point."""
        return min((int(p.values.size) for p in self.points), default=0)

    def without_interval(self) -> list[str]:
        """Name the points with too few repetitions for the interval of a median."""
        return [p.name for p in self.points if p.values.size < least_values()]

    def widest(self) -> tuple[str, float]:
        """Return the point whose median is known worst, and how far the farther end of its interval is."""
        found = [(p.name, interval(p.values.tolist()).reach) for p in self.points if p.values.size]
        return max(found, key=lambda one: one[1], default=("", float("inf")))

    def not_normal(self) -> tuple[list[str], int]:
        """Name the points whose times are not normal (Shapiro-Wilk at 5 %, Holm's correction).

        Returns
        -------
        names : list of str
        tested : int
            Points that had at least 8 repetitions, not all the same.
        """
        from scipy.stats import shapiro

        tested = [p for p in self.points if p.values.size >= 8 and not p.is_constant]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of more than 5000 values
            found = sorted((float(shapiro(p.values).pvalue), p.name) for p in tested)
        names = []
        for rank, (value, name) in enumerate(found):
            if value > 0.05 / (len(found) - rank):
                break
            names.append(name)
        return names, len(tested)
