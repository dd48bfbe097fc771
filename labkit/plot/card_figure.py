"""A collective's cost card: formula, LogGP, simulation, lower bound and measurements over bytes or ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, HoverTool, Legend, LegendItem, Range1d, Span
from bokeh.plotting import figure

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import (
    COLORS,
    FONT,
    MARKERS,
    TOOLS,
    grid_of,
    heading,
    rank_axis,
    style_axes,
    value_axis,
)
from labkit.text.html import quantity

if TYPE_CHECKING:
    from labkit.tuning.cards import Card

__all__ = ["card"]

_LEFT = 80  # pixels: both panels begin at one line
_TICK = 18  # pixels of a tick's label and the gap above it
_GREY, _BLACK = "#b8b8b8", "#111111"
#: what is predicted, and how it is drawn
_PREDICTED = {"formula_s": ("formula", "dashed"), "loggp_s": ("LogGP", "dotted")}


def card(subject: Card, *, width: int = 520, height: int = 300) -> Figure:
    """Draw a cost card: times above, predictions by simulated times below.

    Parameters
    ----------
    subject : Card
        Of `labkit.card`.
    width, height : int
        Pixels inside the axes of the upper panel.

    Returns
    -------
    Figure
        In color the algorithms that are the fastest somewhere; the others are grey.

    Raises
    ------
    DataError
        All points have 0 bytes, or take no time.
    """
    axis = subject.axis
    data = subject.data[(subject.data[axis] > 0) & ~(subject.data["simulated_s"] <= 0)]
    if data.empty:
        raise DataError(
            f"{subject.title}: there is nothing to draw where no byte is sent and no time passes",
            code="no-data",
        )
    x = np.unique(data[axis].to_numpy(float))
    margin = (x[-1] / x[0]) ** 0.05 if x.size > 1 else 1.3
    shared = Range1d(float(x[0] / margin), float(x[-1] * margin))
    winners = list(dict.fromkeys(subject.winners["algorithm"]))
    over, items = _times(data, axis, winners, shared, (width, height))
    below = _ratios(data, axis, winners, shared, (width, max(90, height // 3)))
    over.add_layout(heading(subject.title, 14), "above")
    legend = Legend(items=items, label_text_font=FONT, label_text_font_size="12px", border_line_color=None)
    over.add_layout(legend, "right")
    for fig in (over, below):
        if axis == "ranks":
            rank_axis(fig.xaxis[0], x, room=max(4, width // 55))
        else:
            value_axis(fig.xaxis[0], "B", float(x[0]), float(max(x[-1], 2 * x[0])))
    below.xaxis.axis_label = "ranks p" if axis == "ranks" else "bytes"
    style_axes([over, below])
    return Figure(grid_of([over, below], 1), subject.reading, _alt(subject))


def _times(
    data: pd.DataFrame, axis: str, winners: list[str], shared: Range1d, size: tuple[int, int]
) -> tuple[Any, list[LegendItem]]:
    columns = ["simulated_s", "measured_s", "bound_s", *_PREDICTED]
    is_drawn = data["algorithm"].isin(winners).to_numpy()[:, None] | np.array(
        [name not in _PREDICTED for name in columns]
    )
    values = data[columns].to_numpy(float)[is_drawn]
    values = values[np.isfinite(values) & (values > 0)]
    low, high = float(values.min()), float(values.max())
    room = max((high / low) ** 0.05, 1.15)
    fig = figure(
        frame_width=size[0],
        frame_height=size[1],
        x_axis_type="log",
        y_axis_type="log",
        x_range=shared,
        y_range=Range1d(low / room, high * room),
        tools=TOOLS,
        active_drag=None,
        y_axis_label="time",
        min_border_left=_LEFT,
    )
    value_axis(fig.yaxis[0], "s", low / room, high * room)
    items = []
    others = [name for name in data["algorithm"].unique() if name not in winners]
    grey = [_line(fig, data, axis, name, "simulated_s", line_color=_GREY, line_width=1) for name in others]
    grey = [one for one in grey if one is not None]
    for number, name in enumerate(winners):
        color = COLORS[number % len(COLORS)]
        for column, (_, dash) in _PREDICTED.items():
            _line(fig, data, axis, name, column, line_color=color, line_width=1.6, line_dash=dash)
        line = _line(fig, data, axis, name, "simulated_s", line_color=color, line_width=2.4)
        marks = _marks(fig, data, axis, name, color, MARKERS[number % len(MARKERS)])
        items.append(LegendItem(label=name, renderers=[one for one in (line, marks) if one is not None]))
    if grey:
        label = f"{len(grey)} other{'s' if len(grey) > 1 else ''}"
        items.append(LegendItem(label=label, renderers=[grey[0]]))
    for text, dash in _PREDICTED.values():
        sample = fig.line([x0 := float(shared.start), x0], [low, low], line_color=_BLACK, line_dash=dash)
        items.append(LegendItem(label=text, renderers=[sample]))
    bound = data.drop_duplicates(axis).sort_values(axis)
    bound = bound[bound["bound_s"] > 0]
    if len(bound):
        drawn = fig.line(bound[axis], bound["bound_s"], line_color=_BLACK, line_width=2.4)
        items.append(LegendItem(label="lower bound", renderers=[drawn]))
    measured = _measured(fig, data, axis, winners)
    if measured is not None:
        items.append(LegendItem(label="measured", renderers=[measured]))
    return fig, items


def _line(fig: figure, data: pd.DataFrame, axis: str, name: str, column: str, **look: object) -> Any:
    rows = data[(data["algorithm"] == name) & (data[column] > 0)].sort_values(axis)
    if rows.empty:
        return None
    source = ColumnDataSource(
        {
            "x": rows[axis],
            "y": rows[column],
            "name": [name] * len(rows),
            "text": [quantity(float(value), "s", 3) for value in rows[column]],
        }
    )
    drawn = fig.line("x", "y", source=source, **look)
    what = column.removesuffix("_s")
    tips = [("", "@name"), (axis, "@x{0,0}"), (what, "@text")]
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    return drawn


def _marks(fig: figure, data: pd.DataFrame, axis: str, name: str, color: str, marker: str) -> object:
    rows = data[(data["algorithm"] == name) & (data["simulated_s"] > 0)]
    return fig.scatter(
        rows[axis], rows["simulated_s"], marker=marker, size=8, color=color, line_color="white"
    )


def _measured(fig: figure, data: pd.DataFrame, axis: str, winners: list[str]) -> object:
    rows = data[data["measured_s"] > 0]
    if rows.empty:
        return None
    colors = [
        COLORS[winners.index(name) % len(COLORS)] if name in winners else "#ffffff"
        for name in rows["algorithm"]
    ]
    source = ColumnDataSource(
        {
            "x": rows[axis],
            "y": rows["measured_s"],
            "name": rows["algorithm"],
            "color": colors,
            "text": [quantity(float(value), "s", 3) for value in rows["measured_s"]],
        }
    )
    drawn = fig.scatter(
        "x", "y", source=source, marker="star", size=14, fill_color="color", line_color=_BLACK, line_width=1
    )
    fig.add_tools(
        HoverTool(renderers=[drawn], tooltips=[("measured", "@name"), (axis, "@x{0,0}"), ("", "@text")])
    )
    return drawn


def _ratios(
    data: pd.DataFrame, axis: str, winners: list[str], shared: Range1d, size: tuple[int, int]
) -> figure:
    """Draw what formula and LogGP say of the winners, by what was simulated."""
    fig = figure(
        frame_width=size[0],
        frame_height=size[1],
        x_axis_type="log",
        y_axis_type="log",
        x_range=shared,
        tools=TOOLS,
        active_drag=None,
        y_axis_label="times simulated",
        min_border_left=_LEFT,
    )
    fig.add_layout(Span(location=1.0, dimension="width", line_color="#888888", line_width=1))
    every = [1.0]
    for number, name in enumerate(winners):
        rows = data[data["algorithm"] == name].sort_values(axis)
        for column, (_, dash) in _PREDICTED.items():
            ratio = (rows[column] / rows["simulated_s"]).to_numpy(float)
            is_known = np.isfinite(ratio) & (ratio > 0)
            every += ratio[is_known].tolist()
            fig.line(
                rows[axis][is_known],
                ratio[is_known],
                line_color=COLORS[number % len(COLORS)],
                line_dash=dash,
                line_width=2,
            )
    low, high = min(every), max(every)
    room = max((high / low) ** 0.1, 1.1)
    fig.y_range = Range1d(low / room, high * room)
    value_axis(fig.yaxis[0], "", low / room, high * room, size[1] // _TICK)
    return fig


def _alt(subject: Card) -> str:
    said = "; ".join(
        ", ".join(f"{head} {cell}" for head, cell in zip(subject.head, row, strict=True))
        for row in subject.rows()
    )
    return f"Times over the {subject.axis}, both axes logarithmic; below, predictions by simulation. {said}."
