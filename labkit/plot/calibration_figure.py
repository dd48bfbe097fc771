"""The picture of a calibration: measured times with the fitted ones, and what is left over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bokeh.models import ColumnDataSource, HoverTool, Range1d, Span, Title
from bokeh.plotting import figure

from labkit.plot.figure import Figure
from labkit.plot.style import (
    COLORS,
    DASHES,
    FONT,
    MARKERS,
    TOOLS,
    grid_of,
    heading,
    share_ticks,
    style_axes,
    value_axis,
    wrap,
)
from labkit.text.html import quantity
from labkit.text.units import format_share

if TYPE_CHECKING:
    from labkit.calibration import Calibration

__all__ = ["calibration"]

_NAMES = {"pingpong": "ping-pong", "window": "burst, per message", "exchange": "exchange"}
_MARKERS = dict(zip(_NAMES, MARKERS, strict=False))
#: points of several experiments coincide where their times do: each shows those below it
_SIZES = dict(zip(_NAMES, (10, 7, 5), strict=True))
_LEAST_SHOWN, _MOST_SHOWN = 0.05, 1.5


def calibration(found: Calibration, *, width: int = 760, height: int = 340) -> Figure:
    """Draw measured and predicted times over the message size, and below them the residuals.

    Parameters
    ----------
    found : Calibration
        The calibration.
    width, height : int
        Pixels of each of the two parts.

    Returns
    -------
    Figure
    """
    sizes = found.residuals["bytes"]
    span = Range1d(float(sizes.min()) / 1.3, float(sizes.max()) * 1.3)
    times = _times(found, span, width, height)
    rest = _residuals(found, span, width, int(height * 0.75))
    grid = grid_of([times, rest], 1)
    has_pieces = len(found.fit.curves["wire"].pieces) > 1
    beyond = int((found.residuals["error"] > _MOST_SHOWN).sum())
    shares = (
        f"{_NAMES[name]}: median {format_share(median)}, worst {format_share(worst)}"
        for name, _, median, worst in found.error_rows()
    )
    reading = (
        "Points: measured; lines: the same experiments simulated on the fitted machine"
        + ("; dotted: sizes where a piece of the fitted curve ends" if has_pieces else "")
        + f". Below: the error, predicted / measured - 1. {'; '.join(shares)}."
        + (f" Errors above {_MOST_SHOWN:.0%} are drawn there: {beyond}." if beyond else "")
    )
    for line in wrap(reading, int((width - 90) // 6.6)):
        rest.add_layout(
            Title(
                text=line,
                text_font=FONT,
                text_font_size="12px",
                text_font_style="normal",
                text_color="#444444",
            ),
            "below",
        )
    return Figure(grid, reading, f"Calibration of {found.name}. {reading}", has_words=True)


def _times(found: Calibration, span: Range1d, width: int, height: int) -> figure:
    fig = figure(
        width=width,
        height=height,
        x_axis_type="log",
        y_axis_type="log",
        x_range=span,
        tools=TOOLS,
        active_drag=None,
    )
    for (name, label), color in zip(_NAMES.items(), COLORS, strict=False):
        rows = found.residuals[found.residuals["experiment"] == name]
        if len(rows) == 0:
            continue
        dash = DASHES[list(_NAMES).index(name)]
        fig.line(
            rows["bytes"],
            rows["predicted_s"],
            color=color,
            line_width=1.6,
            line_dash=dash,
            legend_label=label,
        )
        source = ColumnDataSource({
            "x": rows["bytes"],
            "y": rows["measured_s"],
            "size": [quantity(float(v), "B") for v in rows["bytes"]],
            "measured": [quantity(float(v), "s") for v in rows["measured_s"]],
            "predicted": [quantity(float(v), "s") for v in rows["predicted_s"]],
        })  # fmt: skip
        points = fig.scatter(
            "x",
            "y",
            source=source,
            marker=_MARKERS[name],
            size=_SIZES[name],
            color=color,
            fill_alpha=0.2,
            legend_label=label,
        )
        tips = [(label, "@size"), ("measured", "@measured"), ("predicted", "@predicted")]
        fig.add_tools(HoverTool(renderers=[points], tooltips=tips))
    values = found.residuals[["measured_s", "predicted_s"]]
    low, high = float(values.min().min()), float(values.max().max())
    _style(found, fig)
    value_axis(fig.yaxis[0], "s", low, high)
    fig.yaxis.axis_label = "time"
    fig.add_layout(fig.legend[0], "right")
    fig.legend.label_text_font, fig.legend.border_line_color = FONT, None
    fig.add_layout(heading(f"{found.name}: message times"), "above")
    return fig


def _residuals(found: Calibration, span: Range1d, width: int, height: int) -> figure:
    errors = found.residuals["error"].clip(upper=_MOST_SHOWN)
    low, high = (max(float(worst) * 1.1, _LEAST_SHOWN) for worst in (-errors.min(), errors.max()))
    fig = figure(
        width=width,
        height=height,
        x_axis_type="log",
        x_range=span,
        y_range=Range1d(-low, high),
        tools=TOOLS,
        active_drag=None,
    )
    for name, color in zip(_NAMES, COLORS, strict=False):
        rows = found.residuals[found.residuals["experiment"] == name]
        fig.scatter(
            rows["bytes"],
            errors[rows.index],
            marker=_MARKERS[name],
            size=_SIZES[name],
            color=color,
            fill_alpha=0.2,
        )
    fig.add_layout(Span(location=0.0, dimension="width", line_color="#444444", line_width=1))
    _style(found, fig)
    fig.yaxis.axis_label = "error"
    fig.yaxis[0].formatter = share_ticks()
    return fig


def _style(found: Calibration, fig: figure) -> None:
    for piece in found.fit.curves["wire"].pieces[1:]:
        fig.add_layout(
            Span(location=piece.above, dimension="height", line_color="#999999", line_dash="dotted")
        )
    style_axes([fig])
    value_axis(fig.xaxis[0], "B", max(fig.x_range.start, 1.0), fig.x_range.end)
    fig.xaxis.axis_label = "payload"
