"""The explorer of wait states: metrics, call paths and machine in three linked panes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ipywidgets as w

from labkit.errors import DataError
from labkit.jupyter.explorers.base import Explorer, dropdown
from labkit.jupyter.failure import cell_name
from labkit.plot.figure import Figure
from labkit.plot.report_panes import SCALES, DrawnPanes, View, drawing_of
from labkit.result import Run
from labkit.trace.reports import Report, difference, mean, merge

__all__ = ["WaitsExplorer", "waits"]

#: makes a report, and the one that its percentages are of where that is another
_Maker = Callable[[], tuple[Report, Report | None]]

_ALL = -1

_NARROW = ("inclusive", "exclusive")

#: pixels of the panes together
_WIDTH = 920

#: a click may arrive twice: within this time it is the same one
_TWICE_S = 0.3


class WaitsExplorer(Explorer):
    """Reports in three panes; see `waits`.

    Parameters
    ----------
    reports : list of Report
        At least one.

    Attributes
    ----------
    shown, metric, path, rank, values, scale : widgets
        The controls, each with a `value`: which report, the metric's name, the call path's row, the rank (-1:
        all), "inclusive" or "exclusive", and one of `labkit.plot.report_panes.SCALES`.
    report : Report
        What is shown.
    figure : Figure
        The panes.
    """

    report: Report
    figure: Figure

    def __init__(self, reports: list[Report]) -> None:
        super().__init__("Where the time went")
        self._made = _made(reports)
        self._known: dict[str, tuple[Report, Report | None]] = {}
        self._drawings: dict[int, Any] = {}
        self._folded: set[tuple[str, int]] = set()
        self._drawn: DrawnPanes | None = None
        self._told = ("", -1, 0.0)
        first = next(iter(self._made))
        self.report, _ = self._get(first)
        self.shown = dropdown("shown", list(self._made), first, "a run, or what several come to")
        self.metric = dropdown("metric", self._metrics(), "time", "or click a row of the first pane")
        self.path = dropdown("call path", self._paths(), 0, "or click a row of the second pane")
        self.rank = dropdown("rank", self._ranks(), _ALL, "or click the machine; once more: all ranks")
        self.values = dropdown("call paths", _NARROW, _NARROW[0], "with what is in them, or themselves alone")
        self.scale = dropdown("values", SCALES, SCALES[0])
        self.shown.observe(self._other, "value")
        place = w.VBox()
        controls = [self.metric, self.path, self.rank, self.values, self.scale]
        self.start([self.shown, *controls] if len(self._made) > 1 else controls, place, is_wide=True)
        place.children = self.pictures()

    def compute(self) -> None:
        """Draw what is chosen."""
        self.report, base = self._get(self.shown.value)
        view = View(
            self.report,
            self.metric.value,
            self.path.value,
            None if self.rank.value == _ALL else self.rank.value,
            self.values.value == _NARROW[0],
            self.scale.value,
            base or self.report,
            frozenset(self._folded),
        )
        layout = self._drawing()
        if self._drawn is not None and self._drawn.move(view, layout):
            picture = self.pictures()[0]
            picture.reading, picture.alt = self.figure.reading, self.figure.alt
            return
        self._drawn = DrawnPanes(view, layout, _WIDTH)
        self.figure = self._drawn.figure
        self.picture("panes", self.figure)
        for name, tap in (
            ("metrics", self._tap_metric),
            ("paths", self._tap_path),
            ("machine", self.tap_rank),
        ):
            self._listen(self._drawn, name, tap)

    def tap_rank(self, rank: int) -> None:
        """Choose a rank as a click on the machine does: the same once more chooses all.

        Parameters
        ----------
        rank : int
            In the run's numbering.
        """
        self.set(rank=_ALL if self.rank.value == rank else rank)

    def _tap_metric(self, at: int) -> None:
        """Choose a metric; the one that is chosen already is folded or opened."""
        name = self.report.metrics[at].name
        if name == self.metric.value:
            self.fold("metric", at)
        else:
            self.set(metric=name)

    def _tap_path(self, row: int) -> None:
        if row == self.path.value:
            self.fold("path", row)
        else:
            self.set(path=row)

    def fold(self, kind: str, at: int) -> None:
        """Fold what is in a metric or a call path, or open it again.

        Parameters
        ----------
        kind : str
            "metric" or "path".
        at : int
            Which one, in the order of the report.
        """
        self._folded ^= {(kind, at)}
        self.refresh()

    def _listen(self, drawn: DrawnPanes, name: str, tap: Callable[[int], None]) -> None:
        source = drawn.sources[name]

        def tapped(_: str, __: object, points: list[int]) -> None:
            if not points or drawn is not self._drawn:
                return
            node = int(source.data["node"][points[0]])
            told, self._told = self._told, (name, node, time.monotonic())
            if told[:2] != (name, node) or self._told[2] - told[2] > _TWICE_S:
                tap(node)
                self._told = (name, node, time.monotonic())
            source.selected.indices = []  # so that the next click is a change again

        source.selected.on_change("indices", tapped)

    def _get(self, name: str) -> tuple[Report, Report | None]:
        if name not in self._known:
            self._known[name] = self._made[name]()
        return self._known[name]

    def _drawing(self) -> object:
        """Return the drawing of the machine, which is made once."""
        machine = self.report.machine
        if machine is None:
            return None
        if id(machine) not in self._drawings:
            self._drawings[id(machine)] = (machine, drawing_of(machine))
        return self._drawings[id(machine)][1]

    def _metrics(self) -> list[tuple[str, str]]:
        depth = {"": -1}
        for one in self.report.metrics:
            depth[one.name] = depth[one.above] + 1
        return [("\u2003" * depth[one.name] + one.label, one.name) for one in self.report.metrics]

    def _paths(self) -> list[tuple[str, int]]:
        return [(self.report.chain(row), row) for row in range(len(self.report.paths))]

    def _ranks(self) -> list[tuple[str, int]]:
        return [("all", _ALL), *((str(rank), rank) for rank in range(self.report.ranks))]

    def _other(self, change: Any) -> None:
        """Another report: keep the choices as far as it has them."""
        metric, rank, key = self.metric.value, self.rank.value, self.report.key(self.path.value)
        self.report, _ = self._get(change["new"])
        keys = {self.report.key(row): row for row in range(len(self.report.paths))}
        with self.quiet():
            self._folded.clear()
            for control, options, value in (
                (self.metric, self._metrics(), metric),
                (self.path, self._paths(), keys.get(key, 0)),
                (self.rank, self._ranks(), rank),
            ):
                control.options = options
                control.value = value if any(value == one for _, one in options) else options[0][1]


def _made(reports: list[Report]) -> dict[str, _Maker]:
    """Return what can be shown, by name: each report, and what several come to, made when it is asked for."""
    found: dict[str, _Maker] = {}
    for number, one in enumerate(reports, 1):
        same = sum(other.title == one.title for other in reports) > 1
        found[f"{one.title} ({number})" if same else one.title] = partial(_alone, one)
    if len(reports) == 1:
        return found
    alike = len({one.ranks for one in reports}) == 1
    means = "" if alike else ", means of ranks"
    parts = reports if alike else [one.per_rank() for one in reports]
    names = list(found)
    for name, other in zip(names[1:], parts[1:], strict=True):
        found[f"difference: {names[0]} minus {name}{means}"] = partial(_apart, parts[0], other)
    found[f"mean of all{means}"] = partial(_of_all, mean, parts)
    found[f"merge of all{means}"] = partial(_of_all, merge, parts)
    return found


def _alone(one: Report) -> tuple[Report, Report | None]:
    return one, None


def _apart(one: Report, other: Report) -> tuple[Report, Report | None]:
    return difference(one, other), other


def _of_all(make: Callable[..., Report], parts: list[Report]) -> tuple[Report, Report | None]:
    return make(*parts), None


# Call paths of cells: ``allreduce (Cell In[4]:3)`` instead of the name of a temporary file.

_PLACE = re.compile(r"\(([^()]+):(\d+)\)$")


def with_cell_names(report: Report) -> Report:
    """Return a report whose calls have the names of the notebook's cells, where they are in one."""
    from IPython import get_ipython

    shell = get_ipython()
    files = getattr(getattr(shell, "compile", None), "_filename_map", {})
    names = {Path(file).name: cell_name(shell, file) for file in files}

    def renamed(found: re.Match[str]) -> str:
        return f"({names.get(found[1], found[1])}:{found[2]})"

    paths = [path._replace(label=_PLACE.sub(renamed, path.label)) for path in report.paths]
    return replace(report, paths=paths)


def waits(*runs: Run | Report) -> WaitsExplorer:
    """Explore where the time of a run went: metrics, call paths and machine, each pane linked to the others.

    Wait states are metrics among others. Of several runs, such as a simulated and a real one of the same
    program, the list on top has each, what the first has more than another (difference), their mean and their
    merge.

    Parameters
    ----------
    *runs : Run or Report
        Recorded with ``trace=True``, on any machine; or what `Run.report` returned.

    Returns
    -------
    WaitsExplorer
        A widget: the last line of a cell shows it.

    Raises
    ------
    DataError
        No run, or one that was not recorded.

    Examples
    --------
    >>> import labkit as lk
    >>> def program(comm):
    ...     with lk.phase("work"):
    ...         lk.compute(seconds=1e-3 * (1 + (comm.rank == 2)))
    ...     comm.barrier()
    >>> explorer = lk.explore.waits(lk.run(program, ranks=4, on="torus:2x2", trace=True))
    >>> explorer.set(metric="wait_at_barrier", rank=0)
    >>> explorer.report.by_rank("wait_at_barrier").round(6).tolist()
    [0.001, 0.001, 0.0, 0.001]
    """
    if not runs:
        raise DataError("give at least one run, recorded with trace=True", code="missing-key")
    reports = []
    for one in runs:
        if not isinstance(one, Run | Report):
            raise DataError(
                f"give runs, or what run.report() returned; got {type(one).__name__}", code="wrong-type"
            )
        reports.append(with_cell_names(one if isinstance(one, Report) else one.report()))
    return WaitsExplorer(reports)
