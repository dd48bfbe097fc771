"""A report in three panes, each showing the choice of those before it: metrics, call paths, machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, CustomAction, HoverTool, Range1d, TapTool
from bokeh.palettes import RdBu11
from bokeh.plotting import figure
from numpy.typing import NDArray

from labkit.errors import DataError, PlatformError
from labkit.machines.drawing import Layout
from labkit.plot.figure import Figure
from labkit.plot.style import COLORS, FONT, HEAT, LETTER_PX, TOOLS, grid_of, heading, ink_on, style_axes
from labkit.text.html import quantity
from labkit.text.units import format_share, ranks_text
from labkit.trace.reports import Report

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = ["SCALES", "DrawnPanes", "View", "drawing_of", "kept_rows", "machine_pane", "report"]

ROW_PX = 19

#: of a step to the right
_STEP_PX = 13


class TreeRow(NamedTuple):
    """The display of a node of the tree.

    Attributes
    ----------
    node : int
        Its number.
    depth : int
    mark : str
        "▾" where its parts follow, "▸" where they are folded, "" where it has none.
    label, value, tip : str
    color : str
    """

    node: int
    depth: int
    mark: str
    label: str
    value: str
    tip: str
    color: str


def kept_rows(above: Sequence[int], weight: Sequence[float], most: int, chosen: int) -> list[int]:
    """Choose the nodes that are shown where there are too many: the heaviest, with all that they lie in.

    Examples
    --------
    >>> kept_rows([-1, 0, 1, 0], [0, 1, 5, 2], 3, 0)
    [0, 1, 2]
    """
    if len(above) <= most:
        return list(range(len(above)))
    kept: set[int] = set()
    for node in [chosen, *sorted(range(len(above)), key=lambda one: -abs(weight[one]))]:
        if len(kept) >= most:
            break
        while node >= 0 and node not in kept:
            kept.add(node)
            node = above[node]
    return sorted(kept)


def tree_data(rows: Sequence[TreeRow], chosen: int, width: int) -> dict[str, object]:
    """Return the columns of a pane's source: `rows`, of which the node `chosen` is marked."""
    left = [6 + _STEP_PX * row.depth for row in rows]
    return {
        "y": list(range(len(rows))),
        "node": [row.node for row in rows],
        "tip": [row.tip for row in rows],
        "back": ["#FFE9A8" if row.node == chosen else "#FFFFFF" for row in rows],
        "x_mark": left,
        "mark": [row.mark for row in rows],
        "x_box": [at + 17 for at in left],
        "color": [row.color for row in rows],
        "x_value": [at + 26 for at in left],
        "text": [_cut(row, at, width) for row, at in zip(rows, left, strict=True)],
    }


def tree_pane(title: str, data: dict[str, object], room: int, name: str, width: int, height: int) -> figure:
    """Draw a pane."""
    fig = figure(
        width=width,
        height=height,
        tools=TOOLS,
        active_drag=None,
        x_range=Range1d(0, width),
        y_range=Range1d(room - 0.4, -0.6),
        toolbar_location=None,
    )
    source = ColumnDataSource(data)
    bars = fig.hbar(
        y="y", left=0, right=width, height=1.0, fill_color="back", line_color=None, source=source, name=name
    )
    bars.nonselection_glyph = bars.selection_glyph = None
    letters: dict[str, object] = {
        "text_font": value(FONT),
        "text_baseline": "middle",
        "text_color": "#222222",
    }
    fig.text(x="x_mark", y="y", text="mark", text_font_size="11px", source=source, **letters)
    fig.scatter(
        x="x_box", y="y", size=11, marker="square", fill_color="color", line_color="#888888", source=source
    )
    fig.text(x="x_value", y="y", text="text", text_font_size="12px", source=source, **letters)
    fig.add_tools(HoverTool(renderers=[bars], tooltips=[("", "@tip")], attachment="below"))
    fig.add_tools(TapTool(renderers=[bars]))
    fig.axis.visible = False
    fig.grid.visible = False
    style_axes([fig])
    fig.add_layout(heading(title, 13), "above")
    return fig


def _cut(row: TreeRow, left: float, width: int) -> str:
    """Put value and label together, as much as there is room for."""
    room = int((width - left - 32) / LETTER_PX)
    text = f"{row.value}  {row.label}"
    return text if len(text) <= room else f"{text[: max(room - 1, 4)]}…"


#: how values are written
SCALES = ("absolute", "percent of the whole", "percent of the choice")

#: rows that a pane has at most
_ROWS = 26


# The pane of the machine: its hosts in the colors of what happened there, or all ranks as cells.

#: hosts and cables that a drawing has at most: more cannot be distinguished in it
_HOSTS, _CABLES = 1100, 4000

_MARGIN = 0.1


def drawing_of(machine: Any) -> Layout | None:
    """Return the drawing of a machine, None where it has none that shows every host."""
    if machine is None or machine.hosts is None or machine.hosts > _HOSTS:
        return None
    try:
        layout: Layout = machine.description.lay_out()
    except PlatformError:
        return None
    if len(layout.cables) > _CABLES or len(layout.host_points or layout.hosts) < machine.hosts:
        return None
    return layout


def machine_data(
    values: NDArray[np.float64],
    hosts: Sequence[int],
    layout: Layout | None,
    shape: tuple[int, int],
    color_of: Callable[[float], str],
    text_of: Callable[[float], str],
    chosen: int,
) -> dict[str, object]:
    """Return the columns of the pane's source.

    Parameters
    ----------
    values : array of float, shape (ranks,)
    hosts : sequence of int
        Of each rank; empty where they are not known.
    layout : Layout or None
        Of the machine; None: ranks are cells, row by row.
    shape : (int, int)
        Width and height of the pane in pixels.
    color_of, text_of : callable
        Of a value.
    chosen : int
        A rank, or -1.
    """
    if layout is None or not len(hosts):
        at = np.arange(len(values))
        columns, _ = _grid(len(values), *shape)
        groups, sums = [[rank] for rank in range(len(values))], values.tolist()
        x, y = at % columns + 0.5, at // columns + 0.5
        named = [f"rank {rank}" for rank in range(len(values))]
    else:
        used: dict[int, list[int]] = {}
        for rank, host in enumerate(hosts):
            used.setdefault(host, []).append(rank)
        names = _names(layout)
        groups = list(used.values())
        sums = np.bincount(hosts, values)[list(used)].tolist()
        points = np.array([layout.hosts[str(names[host])] for host in used], np.float64)
        x, y = points[:, 0], points[:, 1]
        named = [f"host {host}, {ranks_text(ranks)}" for host, ranks in used.items()]
    colors = [color_of(one) for one in sums]
    return {
        "ink": [ink_on(color) for color in colors],
        "x": x,
        "y": y,
        "node": np.array([ranks[0] for ranks in groups]),
        "color": colors,
        "tip": [f"{name}: {text_of(one)}" for name, one in zip(named, sums, strict=True)],
        "edge": ["#D55E00" if chosen in ranks else "#888888" for ranks in groups],
        "wide": np.array([3.0 if chosen in ranks else 0.6 for ranks in groups]),
        "text": [str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}…" for ranks in groups],
    }


def machine_pane(title: str, data: dict[str, Any], layout: Layout | None, width: int, height: int) -> figure:
    """Draw the pane of `machine_data`; its layout is that of the data."""
    fig = figure(width=width, height=height, tools=TOOLS, active_drag=None, toolbar_location=None)
    source = ColumnDataSource(data)
    letters = {"text_font_size": "11px", "text_font": value(FONT), "text_color": "#333333", "source": source}
    look = {"fill_color": "color", "line_color": "edge", "line_width": "wide", "source": source}
    if layout is None:
        columns, rows = _grid(len(data["node"]), width, height)
        drawn = fig.rect(x="x", y="y", width=0.92, height=0.92, name="machine", **look)
        if len(data["node"]) <= 64:
            inside = letters | {"text_color": "ink"}
            fig.text(x="x", y="y", text="text", text_align="center", text_baseline="middle", **inside)
        ranges = Range1d(0, columns), Range1d(rows, 0)
    else:
        size = _size(len(layout.hosts))
        _cables(fig, layout, set(zip(data["x"].tolist(), data["y"].tolist(), strict=True)), size)
        drawn = fig.scatter(x="x", y="y", size=size, name="machine", **look)
        if len(layout.hosts) <= 64:
            fig.text(x="x", y="y", text="text", x_offset=size // 2 + 2, y_offset=-3, **letters)
        ranges = _ranges(layout, width, height)
    _end(fig, drawn, *ranges)
    fig.axis.visible = False
    fig.grid.visible = False
    style_axes([fig])
    fig.add_layout(heading(title, 13), "above")
    return fig


def _grid(count: int, width: int, height: int) -> tuple[int, int]:
    """Return columns and rows of cells that are about square."""
    columns = max(math.ceil(math.sqrt(count * width / max(height, 1))), 1)
    return columns, -(-count // columns)


def _names(layout: Layout) -> list[str | None]:
    return layout.host_points or [f"host {host}" for host in range(len(layout.hosts))]


def _size(hosts: int) -> int:
    return 17 if hosts <= 16 else 13 if hosts <= 64 else 9 if hosts <= 256 else 6


def _cables(fig: figure, layout: Layout, busy: set[tuple[float, float]], size: int) -> None:
    """Draw what is behind the hosts: cables, switches, hosts without a rank."""
    lines = [line for several in layout.cables.values() for line in several]
    # One line with gaps: thousands of small ones take seconds to be sent.
    path = np.array([at for line in lines for at in (*line, (np.nan, np.nan))], np.float64).reshape(-1, 2)
    fig.line(x=path[:, 0], y=path[:, 1], line_color="#B0B0B0", line_width=0.6 if len(lines) > 800 else 1.0)
    for points, marker, color in (
        ([*layout.switches.values()], "square", COLORS[7]),
        ([at for at in layout.hosts.values() if at not in busy], "circle", "white"),
    ):
        fig.scatter(
            x=[x for x, _ in points],
            y=[y for _, y in points],
            marker=marker,
            size=max(size - 3, 3),
            fill_color=color,
            line_color="#BBBBBB",
        )


def _ranges(layout: Layout, width: int, height: int) -> tuple[Range1d, Range1d]:
    lines = [line for several in layout.cables.values() for line in several]
    corners = [*layout.hosts.values(), *layout.switches.values(), *(at for line in lines for at in line)]
    xs, ys = ([*one] for one in zip(*corners, strict=True))
    left, low = min(xs), min(ys)
    wide, high = max(max(xs) - left, 1e-9), max(max(ys) - low, 1e-9)
    if not layout.is_tree:  # keep its proportions
        scale = max(wide / width, high / max(height - 30, 1))
        left, low = left - (scale * width - wide) / 2, low - (scale * (height - 30) - high) / 2
        wide, high = scale * width, scale * (height - 30)
    edge = (_MARGIN * wide, _MARGIN * high)
    return Range1d(left - edge[0], left + wide + edge[0]), Range1d(low - edge[1], low + high + edge[1])


def _end(fig: figure, drawn: Any, x_range: Range1d, y_range: Range1d) -> None:
    drawn.nonselection_glyph = drawn.selection_glyph = None
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=[("", "@tip")]))
    fig.add_tools(TapTool(renderers=[drawn]))
    fig.x_range, fig.y_range = x_range, y_range


def report(
    run: Run | Report,
    metric: str = "time",
    path: str | int = 0,
    rank: int | None = None,
    *,
    inclusive: bool = True,
    scale: str = "absolute",
    base: Report | None = None,
    folded: Collection[tuple[str, int]] = (),
    layout: object = None,
    width: int = 920,
) -> Figure:
    """Draw metrics, the call paths of one of them, and where on the machine that was, as Cube does.

    Parameters
    ----------
    run : Run or Report
        With ``trace=True``, on any machine; or what `Run.report` returned, or a difference or mean of such.
    metric : str
        Whose call paths are shown.
    path : str or int
        The call path, by its labels or its row, that is shown on the machine.
    rank : int, optional
        Show metrics and call paths of this rank alone.
    inclusive : bool
        A call path with those in it; else, where it is not folded, it alone.
    scale : str
        `SCALES`: a percentage is that of the metric's root in the program, or of what is chosen in the pane
        before.
    base : Report, optional
        Whose values are the 100 %: of a difference, the second one.
    folded : collection of (str, int)
        Nodes whose parts are not shown: ("metric", its place) and ("path", its row).
    layout : Layout, optional
        The machine's drawing, where it has been made already.
    width : int
        Pixels.

    Returns
    -------
    Figure
        Machines of up to 1,100 hosts with a drawing show it, hosts in the colors of their ranks' sums; else
        ranks are cells. Of more than 26 call paths the largest are shown, with those around them.

    Raises
    ------
    DataError
        A run without a trace; no such metric, path, rank or scale.
    """
    shown = run if isinstance(run, Report) else run.report()
    row = shown.path(path) if isinstance(path, str) else int(path)
    view = View(shown, metric, row, rank, inclusive, scale, base or shown, folded)
    drawing = layout if layout is not None else drawing_of(shown.machine)
    return DrawnPanes(view, drawing, width).figure


class DrawnPanes:
    """The three panes as drawn; another view of as many ranks on the same machine moves them.

    Parameters
    ----------
    view : View
    layout : Layout or None
        The machine's drawing.
    width : int
        Pixels.

    Attributes
    ----------
    figure : Figure
    sources : dict of str to bokeh ColumnDataSource
        Of the panes: metrics, paths, machine. Their column ``node`` is a metric's place, a path's row, or
        a rank.
    """

    def __init__(self, view: View, layout: Any, width: int) -> None:
        self._layout = layout if view.shown.hosts else None
        self._ranks = view.shown.ranks
        self._room = max(len(view.shown.metrics), min(len(view.shown.paths), _ROWS) + 2, 14)
        height = 52 + ROW_PX * self._room
        self._wide = (int(0.31 * width), int(0.38 * width))
        self._shape = (width - sum(self._wide), height)
        titles, data = self._content(view)
        panes = [
            tree_pane(title, data[name], self._room, name, wide, height)
            for title, name, wide in zip(titles, ("metrics", "paths"), self._wide, strict=False)
        ]
        panes.append(machine_pane(titles[2], data["machine"], self._layout, *self._shape))
        self._titles = [pane.above[-1] for pane in panes]
        self.sources = {
            name: pane.select({"name": name})[0].data_source for name, pane in zip(data, panes, strict=True)
        }
        reading = view.reading(len(data["paths"]["node"]))
        self.figure = Figure(grid_of(panes), reading, _alt(reading))
        saves = self.figure.layout.select({"type": CustomAction})
        self._scripts = [one.callback for one in saves if "words" in one.callback.args]

    def move(self, view: View, layout: object) -> bool:
        """Show another view in the same panes; False: they are too small or others, and stay as they were."""
        own = layout if view.shown.hosts else None
        if view.shown.ranks != self._ranks or own is not self._layout:
            return False
        titles, data = self._content(view)
        if max(len(data[name]["node"]) for name in ("metrics", "paths")) > self._room:
            return False
        for title, text in zip(self._titles, titles, strict=True):
            title.text = text
        for name, columns in data.items():
            self.sources[name].selected.indices = []
            self.sources[name].data = columns
        reading = view.reading(len(data["paths"]["node"]))
        self.figure.reading, self.figure.alt = reading, _alt(reading)
        for script in self._scripts:
            script.args = {**script.args, "words": self.figure.words()}
        return True

    def _content(self, view: View) -> tuple[list[str], dict[str, dict[str, Any]]]:
        on = "host" if self._layout is not None else "rank"
        where = "the program" if view.row == 0 else view.shown.paths[view.row].label
        titles = [
            "metric" if view.rank is None else f"metric of rank {view.rank}",
            f"{view.label()} by call path",
            f"{where} by {on}",
        ]
        data = {
            "metrics": tree_data(view.metric_rows(), view.number, self._wide[0]),
            "paths": tree_data(view.path_rows(), view.row, self._wide[1]),
            "machine": machine_data(
                view.by_rank(),
                view.shown.hosts,
                self._layout,
                self._shape,
                view.color(view.by_host(self._layout)),
                view.on_machine,
                -1 if view.rank is None else view.rank,
            ),
        }
        return titles, data


def _alt(reading: str) -> str:
    return f"Three panes: metrics, call paths, machine. {reading}"


class View:
    """What stands in the panes; its parameters are those of `report`.

    Raises
    ------
    DataError
        No such metric, path, rank or scale.
    """

    def __init__(
        self,
        shown: Report,
        metric: str,
        row: int,
        rank: int | None,
        inclusive: bool,
        scale: str,
        base: Report,
        folded: Collection[tuple[str, int]],
    ) -> None:
        if scale not in SCALES:
            raise DataError(f"a scale is {', '.join(SCALES)}; got {scale!r}", code="unknown-name")
        if rank is not None and not 0 <= rank < shown.ranks:
            raise DataError(f"ranks are numbers from 0 to {shown.ranks - 1}, got {rank}", code="out-of-range")
        if not 0 <= row < len(shown.paths):
            raise DataError(
                f"call paths are numbers from 0 to {len(shown.paths) - 1}, got {row}", code="out-of-range"
            )
        self.shown, self.metric, self.row, self.rank, self.base = shown, metric, row, rank, base
        self.number = shown.metrics.index(shown.metric(metric))
        self.inclusive, self.scale, self.folded = inclusive, scale, folded
        self.ranks = None if rank is None else [rank]
        self.unit = shown.metric(metric).unit

    def label(self) -> str:
        """Name the metric, and the rank where it is that of one."""
        name = self.shown.metric(self.metric).label
        return name if self.rank is None else f"{name} of rank {self.rank}"

    def metric_rows(self) -> list[TreeRow]:
        """Return the rows of the first pane."""
        known = [one.name for one in self.shown.metrics]
        above = [known.index(one.above) if one.above else -1 for one in self.shown.metrics]
        rows = []
        for at, depth, mark in self._open(above, "metric"):
            one = self.shown.metrics[at]
            value = self.shown.total(one.name, ranks=self.ranks)
            root = known.index(self._root(one.name))
            whole = self._total(known[root])
            family = whole
            if self.shown.is_difference:
                inside = [other.name for other in self.shown.metrics if self._root(other.name) == known[root]]
                family = max(abs(self.shown.total(name, ranks=self.ranks)) for name in inside)
            color = self.color(np.array([abs(family)]))(value)
            text = self._text(value, whole if self.scale != SCALES[0] else None, one.unit)
            rows.append(
                TreeRow(at, depth, mark, one.label, text, f"{one.label}: {text}; {one.meaning}", color)
            )
        return rows

    def path_rows(self) -> list[TreeRow]:
        """Return the rows of the second pane."""
        shown = self.shown
        both = [shown.by_path(self.metric, self.ranks, inclusive=one) for one in (True, False)]
        above = [path.above for path in shown.paths]
        kept = set(kept_rows(above, np.abs(both[0]).tolist(), _ROWS, self.row))
        opened = [one for one in self._open(above, "path") if one[0] in kept]
        values = {at: float(both[0 if self.inclusive or mark == "▸" else 1][at]) for at, _, mark in opened}
        color = self.color(np.array([*values.values(), 0.0]))
        rows = []
        for at, depth, mark in opened:
            text = self._text(values[at], self._whole(), self.unit)
            path = shown.paths[at]
            tip = f"{path.label}: {self._text(float(both[0][at]), self._whole(), self.unit)} with all in it, "
            tip += f"{self._text(float(both[1][at]), self._whole(), self.unit)} itself"
            tip += f"; {path.place}" if path.place else ""
            rows.append(TreeRow(at, depth, mark, path.label, text, tip, color(values[at])))
        return rows

    def by_rank(self) -> NDArray[np.float64]:
        """Return the values of the third pane."""
        return self.shown.by_rank(self.metric, self.row, inclusive=self.inclusive)

    def by_host(self, drawing: object) -> Any:
        """Return the values that the third pane's colors are for."""
        values = self.by_rank()
        if drawing is None or not self.shown.hosts:
            return values
        return np.bincount(self.shown.hosts, values)

    def on_machine(self, value: float) -> str:
        """Write a value of the third pane."""
        whole = self._whole()
        if self.scale == SCALES[2]:
            whole = float(self.by_rank().sum()) if not self.base_differs() else whole
        return self._text(value, whole, self.unit)

    def base_differs(self) -> bool:
        """Whether percentages are those of another report."""
        return self.base is not self.shown

    def color(self, values: Any) -> Callable[[float], str]:
        """Return the colors for values of this size: pale to dark, or blue below and red above zero."""
        top = float(np.abs(values).max(initial=0.0))
        if self.shown.is_difference:
            middle = len(RdBu11) // 2

            def two_sided(value: float) -> str:
                share = value / top if top > 0 else 0.0
                return str(RdBu11[middle + round(middle * max(-1.0, min(1.0, share)))])

            return two_sided

        def one_sided(value: float) -> str:
            share = value / top if top > 0 else 0.0
            at = round((len(HEAT) - 1) * max(0.0, min(1.0, share)) * 0.8)
            return "#FFFFFF" if value == 0 else str(HEAT[at])

        return one_sided

    def reading(self, rows: int) -> str:
        """Return as text what is chosen, and where it is most."""
        shown = self.shown
        where = "the program" if self.row == 0 else shown.chain(self.row)
        values = self.by_rank()
        total = shown.total(self.metric, self.row, self.ranks, inclusive=self.inclusive)
        itself = "" if self.inclusive else " itself"
        itself += f" on rank {self.ranks[0]}" if self.ranks else ""
        said = f"{shown.title}: {shown.metric(self.metric).label} in {where}{itself}, "
        said += self._text(total, None, self.unit)
        whole = self._total(self._root())
        if whole and not shown.is_difference and shown.metric(self.metric).expression is None:
            own = "its" if self.ranks and self.base.ranks == shown.ranks else "all"
            said += f" ({format_share(total / whole)} of {own} {shown.metric(self._root()).label})"
        if shown.ranks > 1 and values.any():
            most, least = int(np.argmax(values)), int(np.argmin(values))
            high, low = (self._text(float(values[one]), None, self.unit) for one in (most, least))
            if shown.is_difference:
                said += f"; from {low} on rank {least} to {high} on rank {most}"
            elif high == low:
                about = "" if values[most] == values[least] else "about "
                said += f"; {about}the same on every rank ({high})"
            else:
                of_all = "; of all ranks most on rank" if self.ranks else "; most on rank"
                said += f"{of_all} {most} ({high}), least on rank {least} ({low})"
        hidden = len(shown.paths) - rows
        folds = any(kind == "path" for kind, _ in self.folded)
        said += f"; {hidden} call paths of less are not shown" if hidden > 0 and not folds else ""
        return f"{said}."

    def _open(self, above: list[int], kind: str) -> list[tuple[int, int, str]]:
        """Return the nodes that no folded one holds, with depth and mark."""
        inner = {one for one in above if one >= 0}
        depth: dict[int, int] = {}
        found = []
        for at, one in enumerate(above):
            if one >= 0 and (one not in depth or (kind, one) in self.folded):
                continue
            depth[at] = depth[one] + 1 if one >= 0 else 0
            found.append(
                (at, depth[at], "" if at not in inner else "▸" if (kind, at) in self.folded else "▾")
            )
        return found

    def _root(self, of: str = "") -> str:
        name = of or self.metric
        while self.shown.metric(name).above:
            name = self.shown.metric(name).above
        return name

    def _whole(self) -> float | None:
        """Return what is 100 % in the panes of call paths and machine."""
        if self.scale == SCALES[0]:
            return None
        return self._total(self._root() if self.scale == SCALES[1] else self.metric)

    def _total(self, name: str) -> float:
        known = any(one.name == name for one in self.base.metrics)
        ranks = self.ranks if self.base.ranks == self.shown.ranks else None
        return self.base.total(name, ranks=ranks) if known else 0.0

    def _text(self, value: float, whole: float | None, unit: str) -> str:
        if whole is not None:
            share = value / whole if whole else 0.0
            return f"{'+' if self.shown.is_difference and value > 0 else ''}{format_share(share)}"
        sign = "+" if self.shown.is_difference and value > 0 else ""
        return f"{sign}{quantity(value, unit, 3)}"
