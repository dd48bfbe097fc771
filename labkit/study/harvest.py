"""The harvest of a sweep: what its points gave, put together as a study.

What comes of a point depends on the point alone, and points are kept in the order of the plan: that is how a
sweep over many workers gives the rows of a serial one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from labkit.errors import LabkitError, StudyWarning
from labkit.result.uncharged import REMARK, Uncharged
from labkit.study.measure import Found
from labkit.study.points import Point, form_remarks, is_real
from labkit.study.rows import how_counted
from labkit.study.study import Study
from labkit.timing.repeats import Conduct

__all__ = ["Harvest", "cut_short", "seeds_change_nothing"]


def seeds_change_nothing(seeds: Iterable[str]) -> bool | None:
    """Return whether the seed is known to matter nowhere, from `Found.seeds` of points; None: not known."""
    tried = {one for one in seeds if one}
    return not tried & {"differ", "chance"} if tried else None


def cut_short(seeds: Mapping[int, str]) -> set[int]:
    """Return the points that ran with too few seeds: two agreed there, and elsewhere they do not.

    Where runs differ that draw nothing from the seed, no other point can be known to be always the same.
    """
    if seeds_change_nothing(seeds.values()) is not False:
        return set()
    doubtful = {"same", "unused"} if "chance" in seeds.values() else {"same"}
    return {number for number, one in seeds.items() if one in doubtful}


@dataclass
class Harvest:
    """Takes in what was found, point by point in the order of the plan, and makes a study of it.

    Attributes
    ----------
    conduct : list of dict
        How each point on a real machine was measured.
    about : dict
        How the sweep was called.
    seeds : dict of int to str
        By the points' numbers whether the seed matters there (`Found.seeds`), where that was tried.
    """

    seed: int
    rows: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    errors: list[LabkitError] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    machines: dict[str, Any] = field(default_factory=dict)
    conduct: list[dict[str, Any]] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, str] = field(default_factory=dict)
    seeds: dict[int, str] = field(default_factory=dict)
    fewer: dict[str, int] = field(default_factory=dict)
    collectives: list[dict[str, dict[int, list[str]]]] = field(default_factory=list)
    uncharged: Uncharged = field(default_factory=Uncharged)

    @property
    def is_deterministic(self) -> bool | None:
        """Whether the seeds are known to change nothing; None as long as no point has shown it."""
        return seeds_change_nothing(self.seeds.values())

    def cut_short(self, plan: Iterable[Point]) -> list[Point]:
        """Return the points of a plan that ran with too few seeds."""
        few = cut_short(self.seeds)
        return [point for point in plan if point.number in few]

    def keep(self, point: Point, found: Found) -> None:
        """Keep a point's rows, or its error; those of an earlier run of the point go.

        Raises
        ------
        Exception
            What the caller's `measure` raised.
        """
        if self.seeds.pop(point.number, ""):
            self.rows = [pair for pair in self.rows if pair[0] != point.number]
        if found.failure is not None:
            self.fail(point, found.failure)
            return
        rows = found.rows
        if found.seeds:
            self.seeds[point.number] = found.seeds
        self.collectives.append(found.collectives)
        if found.fewer:
            self.fewer[point.text] = found.fewer
        for one in rows:
            if isinstance(one, Exception):
                raise one
            self.rows += [(point.number, row) for row in one]
        self.machines.setdefault(found.on, found.machine)
        self.uncharged.add(found.uncharged)
        first = next((one for one in rows if not isinstance(one, Exception)), [])
        if (said := how_counted(first, is_real(point.on))) is not None:
            self.counts.setdefault(found.on, said)
        notes = found.notes
        if found.conduct is not None:
            own = Conduct(**found.conduct).notes()
            notes = [*(one for one in notes if one not in own), *(f"{point.text}: {one}" for one in own)]
            where = {"on": found.on, "ranks": point.ranks, **point.cells}
            self.conduct.append({"point": point.number, **where, **found.conduct})
        for note in notes:
            if note not in self.remarks:
                self.remarks.append(note)

    def fail(self, point: Point, error: LabkitError) -> None:
        """Note that a point failed."""
        self.errors.append(error)
        said = str(error).strip().splitlines()[0]
        if said.endswith(":"):  # of what follows in further lines
            said = said.rpartition(". ")[0] or said
        self.failures.append({"point": point.text, "error": said, "kind": type(error).__name__})

    def study(self) -> Study:
        """Return what was measured; raise when nothing was."""
        if not self.rows:
            raise self.errors[0]
        ordered = [row for _, row in sorted(self.rows, key=lambda pair: pair[0])]
        points: dict[str, list[str]] = {}
        for failure in self.failures:
            points.setdefault(failure["error"], []).append(failure["point"])
        for error, (point, *more) in points.items():
            others = f" and {len(more)} more" if more else ""
            warnings.warn(f"the point {point}{others} failed: {error}", StudyWarning, stacklevel=3)
        if self.uncharged.is_notable and REMARK not in self.remarks:  # none of the runs alone took long
            self.remarks.append(REMARK)
        if self.fewer:
            shown = "; ".join(f"{text}: {number}" for text, number in self.fewer.items())
            self.remarks.append(f"expensive points ran with fewer seeds ({shown}); repeats=N runs N of them")
        data = pd.DataFrame(ordered)
        self.remarks += form_remarks(data, self.collectives)
        notes: dict[str, Any] = {
            "failures": self.failures, "remarks": self.remarks, "machines": self.machines, "seed": self.seed,
            "counts": self.counts,
            "sweep": self.about | {"is_deterministic": self.is_deterministic},
        }  # fmt: skip
        if self.conduct:
            notes["conduct"] = sorted(self.conduct, key=lambda one: int(one["point"]))
        return Study(data, notes)
