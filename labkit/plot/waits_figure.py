"""Wait states and what they go back to: severity by call path and rank, and on the time line."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    CustomJSTickFormatter,
    FactorRange,
    HoverTool,
    Legend,
    LegendItem,
    LinearColorMapper,
    Range1d,
)
from bokeh.plotting import figure

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import FONT, HEAT, SI_JS, TOOLS, count_axis, grid_of, heading, style_axes, time_axis
from labkit.text.html import quantity
from labkit.text.units import format_share
from labkit.trace.activity import state_named
from labkit.trace.trace import NO_PHASE
from labkit.trace.waiting import Waiting
from labkit.trace.waiting.kinds import COMPUTATION

if TYPE_CHECKING:
    import pandas as pd

    from labkit.result import Run

__all__ = ["delays", "waits"]

#: rows of the tables; columns, beyond which neighboring ranks are drawn together
_ROWS, _COLUMNS = 9, 64
#: letters of a line of a label
_WIDE = 50
#: ranks, waits and arrows of the time line
_RANKS, _BARS, _ARROWS = 48, 6000, 60


def waits(run: Run | Waiting, *, width: int = 860) -> Figure:
    """Draw who waited where, and above it what the waiting goes back to, as tables of call paths and ranks.

    Parameters
    ----------
    run : Run or Waiting
        With ``trace=True``, on any machine; or what `Run.waits` returned.
    width : int
        Pixels.

    Returns
    -------
    Figure
        Of many ranks neighbors are drawn together, as their sum.

    Raises
    ------
    DataError
        A run without a trace, or in which no rank waited.
    """
    waiting = _of(run)
    causes, waited = waiting.delays.copy(), waiting.waits
    causes["cost_s"] = causes["direct_s"] + causes["indirect_s"]
    causes["what"] = _places(causes["phase"], causes["call"])
    labeled = waited.assign(what=_states(waited))
    most = max(waiting.ranks, 1)
    size = -(-most // _COLUMNS)
    panels = [
        _table(causes, "cost_s", f"{waiting.program}: what the waiting goes back to", most, size, width),
        _table(labeled, "seconds", "who waited, as what", most, size, width),
    ]
    panels[1].x_range = panels[0].x_range
    panels[1].xaxis.axis_label = "rank" if size == 1 else f"rank ({size} in each column)"
    reading = waiting.reading()
    return Figure(grid_of(panels, 1), reading, f"Two tables of call paths and ranks. {reading}")


def delays(run: Run, *, width: int = 860, height: int = 0) -> Figure:
    """Draw the time line with the wait states, what they go back to, and arrows to who waited.

    Parameters
    ----------
    run : Run
        With ``trace=True``, on any machine.
    width, height : int
        Pixels; by default the height follows the number of ranks.

    Returns
    -------
    Figure
        Of more than 48 ranks those that made others wait longest, and those that waited longest.

    Raises
    ------
    DataError
        A run without a trace, or in which no rank waited.
    """
    waiting = _of(run)
    chosen, said = _chosen(waiting)
    row_of = {rank: row for row, rank in enumerate(chosen)}
    fig = figure(
        width=width,
        height=height or min(150 + 22 * len(chosen), 760),
        tools=TOOLS,
        active_drag=None,
        x_range=Range1d(0.0, waiting.makespan_s, bounds=(0.0, waiting.makespan_s)),
        y_range=Range1d(len(chosen) - 0.4, -0.6, bounds=(-0.6, len(chosen) - 0.4)),
        min_border_left=70,
    )
    time_axis(fig.xaxis, not waiting.is_real)
    if len(chosen) == waiting.ranks:
        count_axis(fig.yaxis[0], "rank", waiting.ranks)
    else:
        fig.yaxis.ticker = list(range(len(chosen)))
        fig.yaxis.major_label_overrides = {row: str(rank) for rank, row in row_of.items()}
        fig.yaxis.axis_label = "rank"
    style_axes([fig])
    fig.ygrid.grid_line_color = None
    every = list(range(len(chosen)))
    # a frame, not a face: waits are pale
    fig.hbar(
        y=every, left=0.0, right=waiting.makespan_s, height=0.74, fill_color="white", line_color="#CCCCCC"
    )
    items = _causes(fig, waiting, row_of)
    items += _waits(fig, waiting, row_of)
    _arrows(fig, waiting, row_of)
    legend = Legend(items=items, orientation="horizontal", border_line_color=None, padding=2, margin=2)
    legend.label_text_font, legend.label_text_font_size, legend.click_policy = FONT, "11px", "hide"
    legend.ncols = min(len(items), 3)
    fig.add_layout(legend, "above")
    reading = f"{waiting.reading()}{said}"
    return Figure(fig, reading, f"Time line of waits and their causes. {reading}")


def _of(run: Run | Waiting) -> Waiting:
    waiting = run if isinstance(run, Waiting) else run.waits()
    if not waiting.seconds > 0:
        raise DataError(
            f"in {waiting.program} on {waiting.on} no rank waited for another: there is nothing to draw",
            code="no-data",
        )
    return waiting


def _places(phase: Any, call: Any) -> list[str]:
    """Name call paths briefly: computation by its phase alone."""
    return [
        (place if place != NO_PHASE else "outside phases")
        if what == COMPUTATION
        else (what if place == NO_PHASE else f"{place}: {what}")
        for place, what in zip(phase.astype(str), call.astype(str), strict=True)
    ]


def _states(waited: pd.DataFrame) -> list[str]:
    places = _places(waited["phase"], waited["call"])
    return [f"{state} ({place})" for state, place in zip(waited["state"].astype(str), places, strict=True)]


def _table(rows: pd.DataFrame, amount: str, title: str, ranks: int, size: int, width: int) -> figure:
    """Draw the sums by what and rank as cells, the largest rows on top."""
    sums = rows.groupby("what")[amount].sum().sort_values(ascending=False, kind="stable")
    shown = [str(what) for what in sums.index[:_ROWS]]
    total = float(sums.sum())
    labels = _labels([f"{what} {format_share(float(sums[what]) / total)}" for what in shown])
    row_px = 26 if all("\n" not in label for label in labels) else 36
    kept = rows[rows["what"].isin(shown)]
    cells = kept.groupby(["what", kept["rank"] // size])[amount].sum()
    what, column = (cells.index.get_level_values(level) for level in (0, 1))
    first = np.asarray(column, np.int64) * size
    last = np.minimum(first + size, ranks)
    named = dict(zip(shown, labels, strict=True))
    source = ColumnDataSource({
        "what": [named[str(one)] for one in what], "left": first - 0.5, "right": last - 0.5,
        "seconds": cells.to_numpy(), "text": [quantity(float(s), "s", 3) for s in cells],
        "ranks": [str(a) if b - a == 1 else f"{a} to {b - 1}" for a, b in zip(first, last, strict=True)],
    })  # fmt: skip
    fig = figure(
        width=width,
        height=90 + row_px * len(labels),
        tools=TOOLS,
        active_drag=None,
        title=heading(title, 13),
        x_range=Range1d(-0.5, ranks - 0.5, bounds=(-0.5, ranks - 0.5)),
        y_range=FactorRange(factors=labels[::-1]),
        min_border_left=330,
    )
    colors = LinearColorMapper(palette=HEAT, low=0.0, high=float(cells.max()))
    drawn = fig.hbar(
        y="what",
        left="left",
        right="right",
        height=0.86,
        source=source,
        line_color=None,
        fill_color={"field": "seconds", "transform": colors},
    )
    fig.add_tools(
        HoverTool(renderers=[drawn], tooltips=[("", "@what"), ("rank", "@ranks"), ("in all", "@text")])
    )
    bar = ColorBar(
        color_mapper=colors, formatter=CustomJSTickFormatter(code=SI_JS, args={"unit": "s"}), width=10
    )
    fig.add_layout(bar, "right")
    count_axis(fig.xaxis[0], "", ranks)
    style_axes([fig])
    fig.grid.grid_line_color = None
    return fig


def _labels(texts: list[str]) -> list[str]:
    r"""Return texts of a call path and a share in two lines at most, no two the same.

    Where one is longer its outer phases go: the inner ones distinguish call paths.

    Examples
    --------
    >>> long = "late sender (" + "outer > " * 14 + "exchange: Recv) 90%"
    >>> print(*_labels(["solve: Barrier 3%", long]), sep="\n")
    solve: Barrier 3%
    late sender (… > outer > outer > outer > outer >
    outer > outer > outer > exchange: Recv) 90%
    """
    found: dict[str, None] = {}
    for text in texts:
        head, opening, path = text.rpartition(" (") if text.count(" (") == 1 else ("", "", text)
        parts = path.split(" > ")
        lines = textwrap.wrap(text, _WIDE)
        while len(lines) > 2 and len(parts) > 1:
            parts = parts[1:]
            lines = textwrap.wrap(f"{head}{opening}… > {' > '.join(parts)}", _WIDE)
        if len(lines) > 2:
            share = text.rsplit(" ", 1)[1]
            lines = [lines[0], f"{lines[1][: _WIDE - len(share) - 2]}… {share}"]
        label = "\n".join(lines)
        while label in found:
            label += " "
        found[label] = None
    return list(found)


def _chosen(waiting: Waiting) -> tuple[list[int], str]:
    """Choose the ranks to be drawn."""
    if waiting.ranks <= _RANKS:
        return list(range(waiting.ranks)), ""
    cost = waiting.causes("rank")["rank"].tolist()
    waited = waiting.severity("rank")["rank"].tolist()
    chosen = list(dict.fromkeys([*cost[: _RANKS // 3], *waited]))[:_RANKS]
    said = f" Drawn are {len(chosen)} of {waiting.ranks} ranks: those that delayed and that waited most."
    return sorted(chosen), said


def _causes(fig: figure, waiting: Waiting, row_of: dict[int, int]) -> list[LegendItem]:
    rows = waiting.delays[waiting.delays["rank"].isin(row_of)].copy()
    rows["cost_s"] = rows["direct_s"] + rows["indirect_s"]
    rows = rows.nlargest(_BARS, "cost_s")
    source = ColumnDataSource(
        {
            "row": [row_of[rank] for rank in rows["rank"]],
            "left": rows["begin_s"],
            "right": rows["end_s"],
            "cost": rows["cost_s"],
            "rank": rows["rank"],
            "what": _places(rows["phase"], rows["call"]),
            "text": [quantity(float(s), "s", 3) for s in rows["cost_s"]],
            "own": [quantity(float(s), "s", 3) for s in rows["end_s"] - rows["begin_s"]],
        }
    )
    colors = LinearColorMapper(palette=HEAT, low=0.0, high=float(rows["cost_s"].max()))
    drawn = fig.hbar(
        y="row",
        left="left",
        right="right",
        height=0.74,
        source=source,
        line_color=None,
        fill_color={"field": "cost", "transform": colors},
    )
    tips = [("rank", "@rank"), ("did", "@what"), ("for", "@own"), ("made others wait", "@text")]
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    return [LegendItem(label="made others wait (stronger: longer)", renderers=[drawn])]


def _waits(fig: figure, waiting: Waiting, row_of: dict[int, int]) -> list[LegendItem]:
    items = []
    kinds = waiting.severity("state")["state"].astype(str).tolist()
    for kind in kinds[:6]:
        state = state_named(kind)
        rows = waiting.waits[(waiting.waits["state"] == kind) & waiting.waits["rank"].isin(row_of)]
        rows = rows.nlargest(_BARS, "seconds")
        source = ColumnDataSource(
            {
                "row": [row_of[rank] for rank in rows["rank"]],
                "left": rows["begin_s"],
                "right": rows["end_s"],
                "rank": rows["rank"],
                "cause": [str(c) if c >= 0 else "not known" for c in rows["cause"]],
                "where": _places(rows["phase"], rows["call"]),
                "text": [quantity(float(s), "s", 3) for s in rows["seconds"]],
            }
        )
        drawn = fig.hbar(
            y="row", left="left", right="right", height=0.5, source=source, line_color="#555555",
            line_width=0.5, fill_color=state.color, hatch_pattern=state.hatch,
            hatch_color=state.hatch_color, hatch_alpha=0.55, hatch_scale=7,
        )  # fmt: skip
        tips = [("rank", "@rank"), (kind, "@text"), ("in", "@where"), ("for rank", "@cause")]
        fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
        items.append(LegendItem(label=kind, renderers=[drawn]))
    return items


def _arrows(fig: figure, waiting: Waiting, row_of: dict[int, int]) -> None:
    """Draw arrows from who came late, when it came, to the middle of the longest waits for it."""
    rows = waiting.waits
    rows = rows[rows["rank"].isin(row_of) & rows["cause"].isin(row_of) & (rows["cause"] != rows["rank"])]
    rows = rows.nlargest(_ARROWS, "seconds")
    down = [row_of[a] > row_of[b] for a, b in zip(rows["rank"], rows["cause"], strict=True)]
    source = ColumnDataSource(
        {
            "x": rows["end_s"],
            "y0": [row_of[c] + (0.37 if d else -0.37) for c, d in zip(rows["cause"], down, strict=True)],
            "y1": [row_of[r] + (-0.25 if d else 0.25) for r, d in zip(rows["rank"], down, strict=True)],
            "turn": np.where(down, np.pi, 0.0),
        }
    )
    fig.segment("x", "y0", "x", "y1", source=source, color="#111111", line_width=1, alpha=0.7)
    fig.scatter("x", "y1", angle="turn", marker="triangle", size=7, fill_color="#111111", line_color="white",
                line_width=0.6, source=source)  # fmt: skip
