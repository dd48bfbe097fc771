"""The pane of the machine: its hosts in the colours of what happened there, or all ranks as cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, HoverTool, Range1d, TapTool
from bokeh.plotting import figure
from numpy.typing import NDArray

from labkit.errors import PlatformError
from labkit.platform.drawing import Layout
from labkit.plot.style import COLORS, FONT, heading, ink_on, style_axes
from labkit.plot.tools import TOOLS
from labkit.units import ranks_text

__all__ = ["drawing_of", "machine_data", "machine_pane"]

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
    values: NDArray[np.float64], hosts: Sequence[int], layout: Layout | None, shape: tuple[int, int],
    color_of: Callable[[float], str], text_of: Callable[[float], str], chosen: int,
) -> dict[str, Any]:  # fmt: skip
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
        "x": x, "y": y, "node": np.array([ranks[0] for ranks in groups]),
        "color": colors,
        "tip": [f"{name}: {text_of(one)}" for name, one in zip(named, sums, strict=True)],
        "edge": ["#D55E00" if chosen in ranks else "#888888" for ranks in groups],
        "wide": np.array([3.0 if chosen in ranks else 0.6 for ranks in groups]),
        "text": [str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}…" for ranks in groups],
    }  # fmt: skip


def machine_pane(title: str, data: dict[str, Any], layout: Layout | None, width: int, height: int) -> Any:
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


def _cables(fig: Any, layout: Layout, busy: set[tuple[float, float]], size: int) -> None:
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
            x=[x for x, _ in points], y=[y for _, y in points], marker=marker, size=max(size - 3, 3),
            fill_color=color, line_color="#BBBBBB",
        )  # fmt: skip


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


def _end(fig: Any, drawn: Any, x_range: Range1d, y_range: Range1d) -> None:
    drawn.nonselection_glyph = drawn.selection_glyph = None
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=[("", "@tip")]))
    fig.add_tools(TapTool(renderers=[drawn]))
    fig.x_range, fig.y_range = x_range, y_range
