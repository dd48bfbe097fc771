"""The summands of a model as stacked shares: which term leads where, and where another takes over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from bokeh.models import ColumnDataSource, HoverTool, Legend, LegendItem, Range1d, Span
from bokeh.plotting import figure

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import COLORS, FONT, HATCHES, TOOLS, heading, rank_axis, share_ticks, style_axes
from labkit.scaling import Model, Verdict
from labkit.scaling.model import Part
from labkit.scaling.verdict import hides
from labkit.text import html as markup

__all__ = ["summands"]

Floats = npt.NDArray[np.float64]

_POINTS = 160
_BEYOND, _FARTHEST = 2.0, 64.0  # times the largest measured value: what is drawn at least and at most


def summands(subject: Model | Verdict, *, title: str = "", width: int = 760, height: int = 360) -> Figure:
    """Draw what each summand of a model contributes, as stacked shares over the parameter.

    Parameters
    ----------
    subject : Model or Verdict
        A model, best a sum of terms; of a verdict its model.
    title : str
        Instead of "Shares of the summands" and what was measured.
    width, height : int
        Pixels.

    Returns
    -------
    Figure
        A dashed line marks the end of the measurements, a solid one where the term that wins in the end
        takes over, where that is at most 64 times beyond.

    Raises
    ------
    DataError
        Where there is no model.

    Examples
    --------
    >>> import labkit as lk
    >>> p = [4, 8, 16, 32, 64, 128, 256, 512]
    >>> lk.plot.summands(lk.fit(p, [5000 * v + v**2 for v in p])).reading[:70]
    'p hides p² up to about p = 5000: from there on p² is the largest part.'
    """
    model = subject.model if isinstance(subject, Verdict) else subject
    if not isinstance(model, Model):
        raise DataError("there is no model to draw: too few values were measured", code="no-data")
    parts = [part for part in model.parts if part.scaled > 0]
    below = [part for part in model.parts if part.scaled < 0]
    takeover, first, last = model.takeover, float(model.x[0]), float(model.x[-1])
    is_near = takeover is not None and takeover.at <= _FARTHEST * last
    end = max(_BEYOND * last, 2 * takeover.at if takeover is not None and is_near else 0.0)
    at = np.geomspace(first, end, _POINTS)
    values = np.array([part(at) for part in parts])
    shares = values / values.sum(axis=0)
    fig = figure(
        width=width,
        height=height,
        x_axis_type="log",
        x_range=Range1d(first, end),
        y_range=Range1d(0, 1),
        tools=TOOLS,
        active_drag=None,
    )
    items = _stack(fig, at, parts, values, shares, model.unit)
    fig.add_layout(Legend(items=items[::-1], label_text_font=FONT, border_line_color=None), "right")
    for place, dash in ((last, "dashed"), (takeover.at if takeover and is_near else None, "solid")):
        if place is not None:
            line = Span(
                location=place, dimension="height", line_color="#111111", line_dash=dash, line_width=2
            )
            fig.add_layout(line)
    fig.xaxis.axis_label = {"p": "ranks p"}.get(model.parameter, model.parameter)
    fig.yaxis.axis_label = "share of the model"
    fig.yaxis.formatter = share_ticks()
    measured = 2.0 ** np.arange(np.ceil(np.log2(first)), np.log2(end) + 1e-9)
    rank_axis(fig.xaxis[0], measured, room=max(4, width // 80))
    metric = subject.phase or subject.metric if isinstance(subject, Verdict) else ""
    name = title or f"Shares of the summands{f': {metric}' if metric else ''}"
    fig.add_layout(heading(name), "above")
    style_axes([fig])
    fig.xgrid.grid_line_color = None
    reading = f"{hides(model)}. Dashed: the last measurement, {model.parameter} = {markup.number(last)}."
    if below:
        names = ", ".join("the constant" if p.term.is_constant else p.term.pretty() for p in below)
        reading += f" Left out, since negative: {names}."
    there = int(np.searchsorted(at, last))
    ends = markup.number(first), markup.number(last)
    spoken = "; ".join(
        f"{part.term.pretty()}: {share[0]:.0%} at {ends[0]}, {share[there]:.0%} at {ends[1]}"
        for part, share in zip(parts, shares, strict=True)
    )
    return Figure(fig, reading, f"Stacked shares of a model's summands. {reading} {spoken}.")


def _stack(
    fig: figure, at: Floats, parts: Sequence[Part], values: Floats, shares: Floats, unit: str
) -> list[LegendItem]:
    items, bottom = [], np.zeros_like(at)
    for i, part in enumerate(parts):
        top = bottom + shares[i]
        color = COLORS[i % len(COLORS)]
        area = fig.varea(
            at,
            bottom,
            top,
            color=color,
            alpha=0.8,
            hatch_pattern=HATCHES[i % len(HATCHES)],
            hatch_color="white",
            hatch_alpha=0.45,
            hatch_scale=9,
        )
        texts = [markup.quantity(float(v), unit, 3) for v in values[i]]
        source = ColumnDataSource({"x": at, "y": top, "share": shares[i], "text": texts})
        edge = fig.line("x", "y", source=source, color="white", line_width=1.5)
        name = "constant" if part.term.is_constant else part.term.pretty()
        tips = [("", name), ("at", "@x{0,0}"), ("share", "@share{0.0 %}"), ("value", "@text")]
        fig.add_tools(HoverTool(renderers=[edge], tooltips=tips))
        items.append(LegendItem(label=name, renderers=[area]))
        bottom = top
    return items
