"""Measured against predicted times: every pair as a point over the run, what deviates in color."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Legend, LegendItem, Span
from bokeh.plotting import figure

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import COLORS, TOOLS, style_axes, time_axis
from labkit.text.html import quantity
from labkit.trace.machine_misfits import Misfits

__all__ = ["misfits"]

_MARKERS = {"computation": "circle", "message": "triangle", "collective": "square"}
#: points next to the findings; names in the legend
_POINTS, _SHOWN = 4000, 5


def misfits(found: Misfits, *, width: int = 860) -> Figure:
    """Draw how many times as long as predicted each computation, message and collective took, over time.

    Parameters
    ----------
    found : Misfits
        What `Run.against` returned.
    width : int
        Pixels.

    Returns
    -------
    Figure
        Each finding in its own color; of very many other pairs every n-th is drawn.

    Raises
    ------
    DataError
        It is something else.
    """
    if not isinstance(found, Misfits):
        raise DataError(
            f"misfits draws what measured.against(predicted) returns, got a {type(found).__name__}",
            code="wrong-type",
        )
    rows = found.samples
    ratio = (rows["measured_s"] / rows["predicted_s"]).to_numpy()
    is_drawn = rows["is_grouped"].to_numpy().copy()
    owner = np.full(len(rows), -1)
    for number in reversed(range(min(len(found.findings), _SHOWN))):
        owner[found.members(found.findings[number])] = number
    is_drawn |= owner >= 0
    rest = np.flatnonzero(is_drawn & (owner < 0))
    rest = rest[:: max(1, -(-len(rest) // _POINTS))]
    fig = figure(
        width=width,
        height=380,
        y_axis_type="log",
        tools=TOOLS,
        active_drag=None,
        x_axis_label="",
        y_axis_label="measured / predicted",
    )
    fig.add_layout(Span(location=1.0, dimension="width", line_color="#444444", line_width=1))
    items = []
    for number in range(-1, min(len(found.findings), _SHOWN)):
        own = rest if number < 0 else np.flatnonzero(owner == number)
        if not len(own):
            continue
        drawn = [_points(fig, found, own, ratio, kind, number) for kind in _MARKERS]
        name = "as predicted, or not flagged" if number < 0 else found.findings[number].where
        items.append(LegendItem(label=name[:64], renderers=[one for one in drawn if one is not None]))
    legend = Legend(items=items, orientation="vertical", label_text_font_size="12px")
    fig.add_layout(legend, "above")
    time_axis(fig.xaxis[0], found.on not in ("mpi", "cluster", "slurm"))
    style_axes([fig])
    reading = found.reading()
    return Figure(fig, reading, f"Ratios of measured to predicted times. {reading}")


def _points(fig: figure, found: Misfits, own: Any, ratio: Any, kind: str, number: int) -> Any:
    rows = found.samples
    own = own[rows["kind"].to_numpy()[own] == kind]
    if not len(own):
        return None
    source = ColumnDataSource(
        {
            "x": rows["at_s"].to_numpy()[own],
            "y": ratio[own],
            "what": [
                ", ".join(one[0] for one in labels.values() if one) for labels in rows["labels"].iloc[own]
            ],
            "measured": [quantity(float(s), "s", 3) for s in rows["measured_s"].to_numpy()[own]],
            "predicted": [quantity(float(s), "s", 3) for s in rows["predicted_s"].to_numpy()[own]],
        }
    )
    drawn = fig.scatter(
        "x",
        "y",
        source=source,
        marker=_MARKERS[kind],
        size=5 if number < 0 else 8,
        fill_color="#b5b5b5" if number < 0 else COLORS[(number + 1) % len(COLORS)],
        line_color="#777777" if number < 0 else "#222222",
        line_width=0.5,
        fill_alpha=0.6,
    )
    tips = [(kind, "@what"), ("measured", "@measured"), ("predicted", "@predicted")]
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    return drawn
