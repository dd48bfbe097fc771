"""Predictions compared with measurements: relative error over message size."""

from __future__ import annotations

import pandas as pd
from bokeh.models import (
    BoxAnnotation,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    Legend,
    LegendItem,
    Range1d,
    Span,
)
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
    share_ticks,
    style_axes,
    value_axis,
)
from labkit.text.html import quantity

__all__ = ["predictions"]

_GOAL = 0.05


def predictions(table: pd.DataFrame, by: str = "network", *, width: int = 170, height: int = 230) -> Figure:
    """Draw the errors of predictions, one small figure for each network.

    Parameters
    ----------
    table : pandas.DataFrame
        Of `labkit.calibration.reality.compare`, with a column `by`.
    by : str
        The column that distinguishes the small figures.
    width, height : int
        Pixels inside the axes of one small figure.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        The table lacks a column.
    """
    missing = [name for name in (by, "problem", "algorithm", "error") if name not in table]
    if missing:
        raise DataError(
            f"a table of labkit.calibration.reality.compare is drawn here, got none: no {', '.join(missing)}",
            code="wrong-type",
        )
    names = [str(name) for name in dict.fromkeys(table[by])]
    kinds = [f"{a} {b}" for a, b in dict.fromkeys(zip(table["problem"], table["algorithm"], strict=True))]
    limit = max(1.15 * float(table["error"].abs().max()), 0.12)
    small = [
        _one(table[table[by] == name], name, kinds, limit, number == 0, (width, height))
        for number, name in enumerate(names)
    ]
    small[-1].add_layout(_legend(small[-1], kinds), "right")
    grid = grid_of(small)
    errors = 100 * table["error"].abs()
    reading = (
        f"Predicted / measured - 1, each dot a collective; shaded: within 5 %. Median error "
        f"{errors.median():.1f} %, worst {errors.max():.1f} %."
    )
    return Figure(grid, reading, f"Errors of predictions on {', '.join(names)}. {reading}")


def _one(
    rows: pd.DataFrame, name: str, kinds: list[str], limit: float, is_first: bool, size: tuple[int, int]
) -> figure:
    fig = figure(
        frame_width=size[0],
        frame_height=size[1],
        x_axis_type="log",
        tools=TOOLS,
        active_drag=None,
        x_range=Range1d(6e4, 6.5e6),
        y_range=Range1d(-limit, limit),
    )
    fig.add_layout(BoxAnnotation(bottom=-_GOAL, top=_GOAL, fill_color="#009E73", fill_alpha=0.12))
    fig.add_layout(Span(location=0.0, dimension="width", line_color="#444444", line_width=1))
    for index, kind in enumerate(kinds):
        problem, algorithm = kind.split(" ", 1)
        part = rows[(rows["problem"] == problem) & (rows["algorithm"] == algorithm)]
        source = ColumnDataSource(
            {"x": part["bytes"], "y": part["error"], "text": [quantity(float(v), "B") for v in part["bytes"]]}
        )
        points = fig.scatter(
            "x",
            "y",
            source=source,
            size=9,
            alpha=0.85,
            marker=MARKERS[index % len(MARKERS)],
            color=COLORS[index % len(COLORS)],
            name=kind,
        )
        fig.add_tools(HoverTool(renderers=[points], tooltips=[(kind, "@text"), ("error", "@y{0.0 %}")]))
    style_axes([fig])
    value_axis(fig.xaxis[0], "B", 6e4, 6.5e6)
    fig.xaxis[0].ticker = FixedTicker(ticks=[1e5, 1e6], minor_ticks=[])
    fig.xaxis.axis_label = "message"
    fig.yaxis[0].formatter = share_ticks()
    if is_first:
        fig.yaxis.axis_label = "predicted / measured - 1"
    fig.add_layout(heading(name, 14), "above")
    return fig


def _legend(fig: figure, kinds: list[str]) -> Legend:
    drawn = {renderer.name: renderer for renderer in fig.renderers}
    items = [LegendItem(label=kind, renderers=[drawn[kind]]) for kind in kinds]
    return Legend(items=items, label_text_font=FONT, border_line_color=None)
