"""The figure of a tuning request: each codelet's measurements, and the decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Legend, LegendItem, Range1d
from bokeh.plotting import figure

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import COLORS, FONT, TOOLS, grid_of, heading, style_axes, value_axis
from labkit.text.html import quantity

if TYPE_CHECKING:
    from labkit.tuning.runtime.explanation import Decision, TuningExplanation

__all__ = ["tuning"]

#: where marks lie that would cover each other, in parts of a row
_SPREAD = 0.32


def tuning(explanation: TuningExplanation, *, width: int = 480) -> Figure:
    """Draw every measurement of a rank, and the estimates that decided, the fastest codelet on top.

    Parameters
    ----------
    explanation : TuningExplanation
        ``request.explain()``, or a timer's.
    width : int
        Pixels inside the axes.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        Nothing was measured yet, or an explanation of something else.
    """
    if not hasattr(explanation, "decisions"):  # a run's explanation is called so, too
        raise DataError(
            "labkit.plot.tuning takes the explanation of a request or a timer of labkit.tune, "
            "request.explain(); labkit.plot.heat draws the explanation of a run",
            code="wrong-type",
        )
    drawn = [one for one in explanation.decisions if one.rows]
    if not drawn:
        raise DataError(
            "nothing was measured yet, or a codelet was preselected: there is nothing to draw", code="no-data"
        )
    panels = [_panel(one, width) for one in drawn]
    reading = " ".join(_reading(one) for one in drawn)
    said = "; ".join(f"{row.name}: {quantity(row.estimate_s, 's', 3)}" for one in drawn for row in one.rows)
    layout = panels[0] if len(panels) == 1 else grid_of(panels, 1)
    return Figure(layout, reading, f"A row of points for each codelet, over the time. {reading} {said}.")


def _reading(one: Decision) -> str:
    first, *rest = one.rows
    if not rest:
        return f"{one.what}: {first.name} alone was measured, {quantity(first.estimate_s, 's', 3)}."
    last = rest[-1]
    more = f", {last.estimate_s / first.estimate_s:.2g} times as long" if first.estimate_s > 0 else ""
    decided = one.winner or "nothing was decided yet"
    return (
        f"{one.what}: {decided}; of {len(one.rows)} codelets {first.name} takes the least, "
        f"{quantity(first.estimate_s, 's', 3)}, and {last.name} the most{more}."
    )


def _panel(one: Decision, width: int) -> figure:
    names = [row.name for row in one.rows][::-1]
    times = [time for row in one.rows for time in (*row.times_s, row.estimate_s) if time > 0] or [1.0]
    low, high = min(times), max(times)
    room = max((high / low) ** 0.05, 1.1)
    fig = figure(
        frame_width=width, frame_height=max(70, 22 * len(names)), y_range=FactorRange(*names),
        x_range=Range1d(low / room, high * room), x_axis_type="log", tools=TOOLS, active_drag=None,
    )  # fmt: skip
    points: dict[str, list[object]] = {"x": [], "y": [], "name": [], "text": []}
    for row in one.rows:
        for number, time in enumerate(row.times_s):
            share = number / max(len(row.times_s) - 1, 1) - 0.5
            points["x"].append(time)
            points["y"].append((row.name, 2 * _SPREAD * share))
            points["name"].append(row.name)
            points["text"].append(quantity(time, "s"))
    dots = fig.scatter(
        "x", "y", source=ColumnDataSource(points), size=5, color=COLORS[7], fill_alpha=0.45, line_color=None
    )
    items = [LegendItem(label="one measurement", renderers=[dots])]
    for is_winner, color, label in ((False, COLORS[0], "estimate"), (True, COLORS[1], "decided for")):
        rows = [row for row in one.rows if (row.name == one.winner) == is_winner]
        if not rows:
            continue
        source = ColumnDataSource({
            "x": [row.estimate_s for row in rows], "y": [row.name for row in rows],
            "name": [row.name for row in rows], "text": [quantity(row.estimate_s, "s") for row in rows],
        })  # fmt: skip
        mark = fig.scatter(
            "x",
            "y",
            source=source,
            size=12,
            color=color,
            line_color="white",
            marker="star" if is_winner else "diamond",
        )
        items.append(LegendItem(label=label, renderers=[mark]))
    tips = [("codelet", "@name"), ("time", "@text")]
    fig.add_tools(HoverTool(tooltips=tips))
    value_axis(fig.xaxis, "s", low, high)
    fig.xaxis.axis_label = "time of a call"
    fig.add_layout(
        Legend(items=items, label_text_font=FONT, border_line_color=None, orientation="horizontal"), "below"
    )
    fig.add_layout(heading(one.what, 14), "above")
    style_axes([fig])
    return fig
