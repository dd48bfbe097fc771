"""The Gantt chart: bars and arrows for few ranks, shares in cells for many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, Legend, LegendItem, Range1d
from bokeh.plotting import figure
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import (
    COLORS,
    FONT,
    HATCHES,
    TOOLS,
    count_axis,
    grid_of,
    share_ticks,
    style_axes,
    time_axis,
)
from labkit.text.html import quantity
from labkit.text.units import format_share, number_of_ranks
from labkit.trace.activity import CALLS, COLLECTIVE, STATES, Activity, activity

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = ["gantt", "lanes_of", "time_bars"]


_BINS = 400


_MOST_BARS = 20_000


def phase_lanes(run: Run, span: Range1d, width: int) -> figure:
    """Draw a lane for every phase: its height is the share of the ranks that are in the phase."""
    names = _phase_names(run)
    fig = figure(
        width=width,
        height=24 + 24 * len(names),
        x_range=span,
        tools=TOOLS,
        active_drag=None,
        y_range=Range1d(len(names) - 0.05, -0.05),
        min_border_left=70,
    )
    for i, name in enumerate(names):
        rows = run.phases[run.phases["phase"] == name]
        at, inside = _steps(rows["begin_s"].to_numpy(), rows["end_s"].to_numpy())
        share = np.minimum(inside / run.all_ranks, 1.0)
        x, y = np.repeat(at, 2)[1:-1], np.repeat(share[:-1], 2)
        drawn = fig.varea(
            x,
            np.full(x.size, i + 0.88),
            i + 0.88 - 0.76 * y,
            fill_color=COLORS[i % len(COLORS)],
            hatch_pattern=HATCHES[i % len(HATCHES)],
            hatch_color="white",
            hatch_alpha=0.45,
            hatch_scale=7,
        )
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


def phase_bars(fig: figure, run: Run) -> list[LegendItem]:
    """Draw every entry of a rank into a phase as a bar; of very many, the longest ones."""
    rows = run.phases.assign(seconds=run.phases["end_s"] - run.phases["begin_s"])
    if len(rows) > _MOST_BARS:
        rows = rows.nlargest(_MOST_BARS, "seconds")
    items = []
    for i, name in enumerate(_phase_names(run)):
        part = rows[rows["phase"] == name]
        source = ColumnDataSource(
            {
                "rank": part["rank"],
                "left": part["begin_s"],
                "right": part["end_s"],
                "text": [quantity(float(s), "s") for s in part["seconds"]],
            }
        )
        drawn = fig.hbar(
            y="rank",
            left="left",
            right="right",
            height=0.74,
            source=source,
            line_color=None,
            fill_color=COLORS[i % len(COLORS)],
            hatch_pattern=HATCHES[i % len(HATCHES)],
            hatch_color="white",
            hatch_alpha=0.45,
            hatch_scale=7,
        )
        fig.add_tools(HoverTool(renderers=[drawn], tooltips=[("rank", "@rank"), (name, "@text")]))
        items.append(LegendItem(label=name, renderers=[drawn]))
    return items


def profile(what: Activity, run: Run, span: Range1d, width: int) -> figure:
    """Draw the share of all ranks that did each kind of thing, over time, as stacked areas."""
    fig = figure(
        width=width,
        height=150,
        x_range=span,
        y_range=Range1d(0, 1),
        tools=TOOLS,
        active_drag=None,
        min_border_left=70,
    )
    shares = what.cells(1, _BINS)[:, 0]
    edges = np.linspace(0.0, what.makespan_s, _BINS + 1)
    x = np.repeat(edges, 2)[1:-1]
    bottom = np.zeros(x.size)
    for kind, state in enumerate(STATES):
        if not shares[kind].any():
            continue
        top = bottom + np.repeat(shares[kind], 2)
        drawn = fig.varea(
            x,
            bottom,
            top,
            fill_color=state.color,
            hatch_pattern=state.hatch,
            hatch_color=state.hatch_color,
            hatch_alpha=0.55,
            hatch_scale=7,
        )
        fig.add_tools(HoverTool(renderers=[drawn], tooltips=[("", state.name)]))
        bottom = top
    fig.yaxis.formatter = share_ticks()
    fig.yaxis.ticker = FixedTicker(ticks=[0, 0.5, 1])
    fig.yaxis.axis_label = "ranks"
    time_axis(fig.xaxis, run.model is not None)
    style_axes([fig])
    return fig


def _phase_names(run: Run) -> list[str]:
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


#: beyond these the ranks are drawn as cells: ranks, and intervals
MOST_ROWS, MOST_BARS = 128, 6000
MOST_ARROWS = 300
#: shares of states that the reading has
_SAID = 8


def gantt(
    run: Run, *, arrows: bool | None = None, cells: bool | None = None, width: int = 860, height: int = 0
) -> Figure:
    """Draw what the ranks of a run did over time.

    Parameters
    ----------
    run : Run
        With ``trace=True``, on any machine; of any other run only the phases are drawn.
    arrows : bool, optional
        Whether each message is an arrow from its sender to its receiver; by default up to 300 are.
    cells : bool, optional
        Whether neighboring ranks and times are drawn together, in the color of what took most of a
        cell's time, with the exact shares of all ranks below; by default beyond 128 ranks or 6000 bars.
    width, height : int
        Pixels; by default the height follows the number of ranks.

    Returns
    -------
    Figure
        On top, for every phase, the share of the ranks that are in it.

    Raises
    ------
    DataError
        A run of no time, or with neither a trace nor phases.

    Examples
    --------
    >>> import labkit as lk
    >>> run = lk.run(lambda comm: comm.barrier(), ranks=4, on="star", trace=True)
    >>> gantt(run, arrows=False).reading
    '<lambda> on star, 4 ranks, 44.21 µs: start-ups and calls 82%, message under way 18%.'
    """
    if run.trace is None:
        return _phases_only(run, width, height)
    what = activity(run.trace, run.waits().waits)
    if what.makespan_s <= 0:
        raise DataError(
            f"{run.program} on {run.on} took no time: there is nothing to be drawn over time", code="no-data"
        )
    span = Range1d(0.0, what.makespan_s, bounds=(0.0, what.makespan_s))
    is_coarse = cells if cells is not None else what.ranks > MOST_ROWS or len(what) > MOST_BARS
    parts = [phase_lanes(run, span, width)] if len(run.phases) else []
    if is_coarse:
        panel, said = _cells(what, run, span, width, height)
        parts += [panel, profile(what, run, span, width)]
    else:
        panel = time_bars(what, run, span, width, height)
        said = ""
        if arrows or (arrows is None and len(run.trace) <= MOST_ARROWS):
            said = " Arrows are messages." if _arrows(panel, run) else ""
        if len(run.trace.operations):
            said += " A thin bar below a rank: a nonblocking collective in progress."
        parts.append(panel)
    for part in parts[:-1]:
        part.xaxis.visible = False
    if parts[0] is not panel:
        said += " On top: the share of the ranks in each phase."
    reading = f"{_headline(run, what)}{said}"
    return Figure(grid_of(parts, 1), reading, f"Time line of what the ranks did. {reading} {_idlest(what)}")


def _headline(run: Run, what: Activity) -> str:
    every = what.shares()
    shares = [(share, STATES[i].name) for i, share in enumerate(every) if share >= 5e-4]
    if 1 - every.sum() >= 5e-3:
        shares.append((1 - float(every.sum()), "ended already"))
    shares.sort(reverse=True)
    if len(shares) > _SAID + 1:
        rest = sum(share for share, _ in shares[_SAID:])
        shares = [*shares[:_SAID], (rest, f"{len(shares) - _SAID} others together")]
    said = ", ".join(f"{name} {format_share(share)}" for share, name in shares)
    where = f"{run.program} on {run.on}, {number_of_ranks(what.ranks)}"
    return f"{where}, {quantity(what.makespan_s, 's')}: {said}."


def _idlest(what: Activity) -> str:
    busy = np.bincount(what.rank, np.where(what.kind <= CALLS, what.end_s - what.begin_s, 0.0), what.ranks)
    most, least = int(busy.argmax()), int(busy.argmin())
    longest, shortest = (format_share(busy[rank] / what.makespan_s) for rank in (most, least))
    if longest == shortest:
        return f"Every rank is busy {longest} of the run."
    return f"Rank {most} is busy the longest, {longest} of the run, rank {least} the least, {shortest}."


def _canvas(span: Range1d, run: Run, width: int, height: int) -> figure:
    ranks = run.all_ranks
    fig = figure(
        width=width,
        height=height,
        x_range=span,
        tools=TOOLS,
        active_drag=None,
        y_range=Range1d(ranks - 0.4, -0.6, bounds=(-0.6, ranks - 0.4)),
        min_border_left=70,
    )
    time_axis(fig.xaxis, run.model is not None)
    count_axis(fig.yaxis[0], "rank", ranks)
    style_axes([fig])
    fig.ygrid.grid_line_color = None
    return fig


def time_bars(what: Activity, run: Run, span: Range1d, width: int, height: int) -> Any:
    """Draw a bar for everything that a rank did, in the colors of `labkit.trace.activity`."""
    fig = _canvas(span, run, width, height or min(160 + 22 * what.ranks, 760))
    items = []
    for kind, state in enumerate(STATES):
        rows = np.flatnonzero(what.kind == kind)
        if not rows.size:
            continue
        source = ColumnDataSource(
            {
                "rank": what.rank[rows],
                "left": what.begin_s[rows],
                "right": what.end_s[rows],
                "text": [quantity(float(s), "s") for s in what.end_s[rows] - what.begin_s[rows]],
                "at": [quantity(float(s), "s") for s in what.begin_s[rows]],
                "message": _causes(run, what.message[rows]),
            }
        )
        drawn = fig.hbar(
            y="rank",
            left="left",
            right="right",
            height=0.74,
            source=source,
            fill_color=state.color,
            line_color=None,
            hatch_pattern=state.hatch,
            hatch_color=state.hatch_color,
            hatch_alpha=0.55,
            hatch_scale=7,
        )
        tips = [("rank", "@rank"), (state.name, "@text"), ("from", "@at")]
        if kind > CALLS:
            tips.append(("in" if kind == COLLECTIVE else "for", "@message"))
        fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
        items.append(LegendItem(label=state.name, renderers=[drawn]))
        if kind == COLLECTIVE:
            _names(fig, what, run, rows)
    items += _operations(fig, run, what.makespan_s)
    _legend(fig, items)
    return fig


def _names(fig: figure, what: Activity, run: Run, rows: NDArray[np.int64]) -> None:
    """Write the names of collectives into bars that have room for them."""
    names = run.trace.calls["call"].to_numpy()[-2 - what.message[rows]]
    middle, length = (what.begin_s + what.end_s)[rows] / 2, (what.end_s - what.begin_s)[rows]
    wide = length / what.makespan_s > np.array([0.0085 * (len(name) + 1.5) for name in names])
    source = ColumnDataSource({"x": middle[wide], "y": what.rank[rows][wide], "name": names[wide]})
    fig.text(
        "x",
        "y",
        text="name",
        source=source,
        text_align="center",
        text_baseline="middle",
        text_font=value(FONT),
        text_font_size="10px",
        text_color="white",
        padding=2,
        background_fill_color=STATES[COLLECTIVE].color,
    )


def _operations(fig: figure, run: Run, makespan_s: float) -> list[LegendItem]:
    """Draw concurrent collectives as thin bars below their ranks; what overlaps, one below the other."""
    table = run.trace.operations
    if not len(table):
        return []
    begin, end = table["begin_s"].to_numpy(), np.minimum(table["end_s"].to_numpy(), makespan_s)
    lane = lanes_of(table["rank"].to_numpy(), begin, end)
    height = 0.11 / (lane.max() + 1)
    source = ColumnDataSource(
        {
            "y": table["rank"] + 0.39 + height * (lane + 0.5),
            "rank": table["rank"],
            "name": table["name"],
            "left": begin,
            "right": end,
            "text": [quantity(float(s), "s") for s in end - begin],
            "at": [quantity(float(s), "s") for s in begin],
        }
    )
    drawn = fig.hbar(
        y="y",
        left="left",
        right="right",
        height=0.9 * height,
        source=source,
        fill_color="#111111",
        line_color="white",
        line_width=0.5,
    )
    tips = [("rank", "@rank"), ("concurrently", "@name"), ("under way", "@text"), ("from", "@at")]
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    return [LegendItem(label="nonblocking collective", renderers=[drawn])]


def _causes(run: Run, rows: NDArray[np.int64]) -> list[str]:
    """Name what bars are about: a message, or a collective (below -1)."""
    if run.trace.calls is None or not (rows < -1).any():
        return _messages(run, rows)
    calls = run.trace.calls
    names, sizes = calls["call"].to_numpy(), calls["bytes"].to_numpy()
    return [
        f"{names[-2 - row]}, {quantity(float(sizes[-2 - row]), 'B')}" if row < -1 else text
        for row, text in zip(rows.tolist(), _messages(run, np.maximum(rows, -1)), strict=True)
    ]


def _messages(run: Run, rows: Any) -> list[str]:
    """Name messages: who to whom, and how much."""
    table = run.trace.messages
    columns = (
        [table[name].to_numpy()[rows] for name in ("source", "destination", "bytes")] if len(table) else []
    )
    if not columns:
        return [""] * len(rows)
    named = (f"{a} to {b}, {quantity(float(n), 'B')}" for a, b, n in zip(*columns, strict=True))
    return [text if row >= 0 else "" for row, text in zip(rows, named, strict=True)]


def _arrows(fig: figure, run: Run) -> bool:
    """Draw the messages between ranks; return whether there are any."""
    table = run.trace.messages
    table = table[table["source"] != table["destination"]]
    if table.empty:
        return False
    rows = table.index.to_numpy()
    source = ColumnDataSource(
        {
            "x0": table["start_s"],
            "y0": table["source"],
            "x1": table["end_s"],
            "y1": table["destination"],
            "turn": np.where(table["destination"] > table["source"], np.pi, 0.0),
            "message": _messages(run, rows),
            "text": [quantity(float(s), "s") for s in table["end_s"] - table["start_s"]],
        }
    )
    # A light edge: seen on dark bars too.
    fig.segment("x0", "y0", "x1", "y1", source=source, color="white", line_width=2.6, alpha=0.55)
    lines = fig.segment("x0", "y0", "x1", "y1", source=source, color="#111111", line_width=1, alpha=0.8)
    fig.scatter(
        "x1",
        "y1",
        angle="turn",
        marker="triangle",
        size=8,
        fill_color="#111111",
        line_color="white",
        line_width=0.8,
        source=source,
    )
    fig.add_tools(HoverTool(renderers=[lines], tooltips=[("message", "@message"), ("under way", "@text")]))
    return True


def _cells(what: Activity, run: Run, span: Range1d, width: int, height: int) -> tuple[Any, str]:
    """Draw cells of neighboring ranks and times in the color of their largest share."""
    size = -(-what.ranks // MOST_ROWS)
    groups = -(-what.ranks // size)
    shares = what.cells(groups, _BINS)
    fig = _canvas(span, run, width, height or min(max(170 + 4 * groups, 260), 560))
    step = what.makespan_s / _BINS
    row, column = (each.ravel() for each in np.indices((groups, _BINS)))
    largest = shares.argmax(axis=0).ravel()
    taken = shares.max(axis=0).ravel() >= 1 - shares.sum(axis=0).ravel()  # ranks that have ended are blank
    first, last = row * size, np.minimum((row + 1) * size, what.ranks)
    items = []
    present = [k for k in range(len(STATES)) if shares[k].any()]
    for kind in present:
        chosen = np.flatnonzero((largest == kind) & taken)
        if not chosen.size:
            continue
        data = {
            "left": column[chosen] * step,
            "right": (column[chosen] + 1) * step,
            "bottom": first[chosen] - 0.5,
            "top": last[chosen] - 0.5,
            "first": first[chosen],
            "last": last[chosen] - 1,
        }
        data |= {f"share{k}": shares[k].ravel()[chosen].astype(np.float32) for k in present}
        source = ColumnDataSource(data)
        drawn = fig.quad(
            left="left",
            right="right",
            bottom="bottom",
            top="top",
            source=source,
            fill_color=STATES[kind].color,
            line_color=None,
        )
        tips = [("ranks", "@first to @last"), *((STATES[k].name, f"@share{k}{{0 %}}") for k in present)]
        fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
        items.append(LegendItem(label=STATES[kind].name, renderers=[drawn]))
    _legend(fig, items)
    together = f"{size} ranks" if size > 1 else "a rank"
    said = (
        f" Each cell is {together} for {quantity(step, 's', 3)}, in the color of what took most of it; "
        "below: the shares of all ranks."
    )
    return fig, said


def _phases_only(run: Run, width: int, height: int) -> Figure:
    """Draw the phases of a run without a trace."""
    if not len(run.phases):
        raise DataError(
            f"{run.program} on {run.on} has neither a trace nor phases; run it with "
            'trace=True, or mark its steps with lk.phase("...")',
            code="no-data",
        )
    end = max(float(run.phases["end_s"].max()), run.makespan_s if run.makespan_s > 0 else 0.0)
    span = Range1d(0.0, end, bounds=(0.0, end))
    fig = _canvas(span, run, width, height or min(160 + 22 * run.all_ranks, 760))
    _legend(fig, phase_bars(fig, run))
    reading = (
        f"The phases of {run.program} on {run.on}, {run.all_ranks} ranks, {quantity(end, 's')}. What the "
        "ranks did inside them is known of a run with trace=True."
    )
    return Figure(fig, reading, f"Time line of the phases of every rank. {reading}")


def _legend(fig: figure, items: list[LegendItem]) -> None:
    legend = Legend(items=items, orientation="horizontal", border_line_color=None, padding=2, margin=2)
    legend.label_text_font, legend.label_text_font_size, legend.click_policy = FONT, "11px", "hide"
    legend.ncols = min(len(items), 5)
    fig.add_layout(legend, "above")
