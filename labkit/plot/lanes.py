"""The parts of a time line beside the ranks: phases as lanes or bars, and the shares of all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, LegendItem, Range1d
from bokeh.plotting import figure
from numpy.typing import NDArray

from labkit.html import quantity
from labkit.plot.style import COLORS, HATCHES, share_ticks, style_axes, time_axis
from labkit.plot.tools import TOOLS
from labkit.trace.activity import Activity
from labkit.trace.states import STATES

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = ["lanes_of", "phase_bars", "phase_lanes", "profile"]

_BINS = 400
_MOST_BARS = 20_000


def phase_lanes(run: Run, span: Range1d, width: int) -> Any:
    """Draw a lane for every phase: its height is the share of the ranks that are in the phase.

    Parameters
    ----------
    run : Run
        With phases.
    span : Range1d
        Of the time.
    width : int
        Pixels.
    """
    names = _names(run)
    fig = figure(
        width=width, height=24 + 24 * len(names), x_range=span, tools=TOOLS, active_drag=None,
        y_range=Range1d(len(names) - 0.05, -0.05), min_border_left=70,
    )  # fmt: skip
    for i, name in enumerate(names):
        rows = run.phases[run.phases["phase"] == name]
        at, inside = _steps(rows["begin_s"].to_numpy(), rows["end_s"].to_numpy())
        share = np.minimum(inside / run.all_ranks, 1.0)
        x, y = np.repeat(at, 2)[1:-1], np.repeat(share[:-1], 2)
        drawn = fig.varea(
            x, np.full(x.size, i + 0.88), i + 0.88 - 0.76 * y, fill_color=COLORS[i % len(COLORS)],
            hatch_pattern=HATCHES[i % len(HATCHES)], hatch_color="white", hatch_alpha=0.45, hatch_scale=7,
        )  # fmt: skip
        begin, end = float(rows["begin_s"].min()), float(rows["end_s"].max())
        text = f"{quantity(begin, 's', 3)} to {quantity(end, 's', 3)}"
        fig.add_tools(HoverTool(renderers=[drawn], tooltips=[("phase", name), ("first to last", text)]))
    fig.yaxis.ticker = FixedTicker(ticks=[i + 0.5 for i in range(len(names))])
    fig.yaxis.major_label_overrides = {i + 0.5: name for i, name in enumerate(names)}
    time_axis(fig.xaxis, run.model is not None)
    style_axes([fig])
    fig.ygrid.grid_line_color = None
    return fig


def lanes_of(rank: NDArray[Any], begin: NDArray[Any], end: NDArray[Any]) -> NDArray[np.int64]:
    """Give each interval the first lane of its rank in which nothing lies at that time; in order of begin."""
    lane = np.zeros(len(rank), np.int64)
    free_from: dict[int, list[float]] = {}
    for i in np.argsort(begin, kind="stable").tolist():
        ends = free_from.setdefault(int(rank[i]), [])
        found = next((k for k, upto in enumerate(ends) if upto <= begin[i]), len(ends))
        ends[found : found + 1] = [float(end[i])]
        lane[i] = found
    return lane


def phase_bars(fig: Any, run: Run) -> list[LegendItem]:
    """Draw every entry of a rank into a phase as a bar; of very many, the longest ones."""
    rows = run.phases.assign(seconds=run.phases["end_s"] - run.phases["begin_s"])
    if len(rows) > _MOST_BARS:
        rows = rows.nlargest(_MOST_BARS, "seconds")
    items = []
    for i, name in enumerate(_names(run)):
        part = rows[rows["phase"] == name]
        source = ColumnDataSource({
            "rank": part["rank"], "left": part["begin_s"], "right": part["end_s"],
            "text": [quantity(float(s), "s") for s in part["seconds"]],
        })  # fmt: skip
        drawn = fig.hbar(
            y="rank", left="left", right="right", height=0.74, source=source, line_color=None,
            fill_color=COLORS[i % len(COLORS)], hatch_pattern=HATCHES[i % len(HATCHES)],
            hatch_color="white", hatch_alpha=0.45, hatch_scale=7,
        )  # fmt: skip
        fig.add_tools(HoverTool(renderers=[drawn], tooltips=[("rank", "@rank"), (name, "@text")]))
        items.append(LegendItem(label=name, renderers=[drawn]))
    return items


def profile(what: Activity, run: Run, span: Range1d, width: int) -> Any:
    """Draw the share of all ranks that did each kind of thing, over time, as stacked areas."""
    fig = figure(
        width=width, height=150, x_range=span, y_range=Range1d(0, 1), tools=TOOLS, active_drag=None,
        min_border_left=70,
    )  # fmt: skip
    shares = what.cells(1, _BINS)[:, 0]
    edges = np.linspace(0.0, what.makespan_s, _BINS + 1)
    x = np.repeat(edges, 2)[1:-1]
    bottom = np.zeros(x.size)
    for kind, state in enumerate(STATES):
        if not shares[kind].any():
            continue
        top = bottom + np.repeat(shares[kind], 2)
        drawn = fig.varea(
            x, bottom, top, fill_color=state.color, hatch_pattern=state.hatch,
            hatch_color=state.hatch_color, hatch_alpha=0.55, hatch_scale=7,
        )  # fmt: skip
        fig.add_tools(HoverTool(renderers=[drawn], tooltips=[("", state.name)]))
        bottom = top
    fig.yaxis.formatter = share_ticks()
    fig.yaxis.ticker = FixedTicker(ticks=[0, 0.5, 1])
    fig.yaxis.axis_label = "ranks"
    time_axis(fig.xaxis, run.model is not None)
    style_axes([fig])
    return fig


def _names(run: Run) -> list[str]:
    order = run.phases.sort_values("begin_s", kind="stable")["phase"]
    return [str(name) for name in order.drop_duplicates()]


def _steps(begin: Any, end: Any) -> tuple[Any, Any]:
    """How many intervals are open from each time on; of very many times, some."""
    times = np.concatenate([begin, end])
    change = np.concatenate([np.ones(len(begin)), -np.ones(len(end))])
    order = np.argsort(times, kind="stable")
    times, inside = times[order], np.cumsum(change[order])
    last = np.append(np.flatnonzero(np.diff(times) > 0), times.size - 1)
    times, inside = times[last], inside[last]
    if times.size > 4 * _BINS:
        kept = np.unique(np.linspace(0, times.size - 1, 4 * _BINS).astype(int))
        times, inside = times[kept], inside[kept]
    return np.concatenate([[times[0]], times]), np.concatenate([[0.0], inside])
