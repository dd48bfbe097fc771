"""Several studies in one picture: which program is the fastest where, on each machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.models import (
    ColumnDataSource,
    HoverTool,
    Legend,
    LegendItem,
    Range1d,
)
from bokeh.plotting import figure
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import (
    COLORS,
    DASHES,
    FONT,
    MARKERS,
    TOOLS,
    grid_of,
    heading,
    rank_axis,
    style_axes,
    value_axis,
)
from labkit.text import html as markup

if TYPE_CHECKING:
    from labkit.study import Curve, Study

__all__ = ["compare", "lines"]


def compare(
    studies: Mapping[str, Mapping[str, Study]],
    metric: str | None = None,
    phase: str | None = None,
    *,
    width: int = 190,
    height: int = 270,
) -> Figure:
    """Draw one small figure per machine, a line per program, all with the same axes.

    Parameters
    ----------
    studies : mapping of str to mapping of str to Study
        Machine -> program -> study.
    metric, phase : str, optional
        What to draw; by default the makespan.
    width, height : int
        Pixels of one small figure's frame; three of them fit a notebook.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If there is nothing to draw.
    """
    if not isinstance(studies, Mapping) or not all(isinstance(one, Mapping) for one in studies.values()):
        raise DataError(
            "several programs on several machines are drawn here: pass {machine: {program: study}}; "
            "one study of several is drawn by study.plot()",
            code="ambiguous",
        )
    curves = {
        machine: {name: study.curve(metric, phase) for name, study in programs.items()}
        for machine, programs in studies.items()
    }
    every = [curve for programs in curves.values() for curve in programs.values()]
    if not every:
        raise DataError("there is nothing to compare: pass {machine: {program: study}}", code="no-data")
    names = list(dict.fromkeys(name for programs in curves.values() for name in programs))
    low = min(float(_points(curve).min()) for curve in every)
    high = max(float(_points(curve).max()) for curve in every)
    room = max((high / low) ** 0.06, 1.1)
    panels = []
    for number, (machine, programs) in enumerate(curves.items()):
        is_last = number == len(curves) - 1
        panel = _panel(machine, programs, names, (low / room, high * room), (width, height), is_last)
        if number == 0:
            panel.yaxis.axis_label = _label(every[0])
        else:  # the axis is the same
            panel.yaxis.visible = False
            panel.min_border_left = 18
        panels.append(panel)
    grid = grid_of(panels)
    return Figure(grid, _reading(curves), _alt(curves))


def lines(curves: Mapping[str, Curve], *, title: str = "", width: int = 520, height: int = 360) -> Figure:
    """Draw several curves of a study, a line each: machines, algorithms, values of a parameter.

    Parameters
    ----------
    curves : mapping of str to Curve
        `Study.curves`.
    title : str
        Instead of the name of what was measured.
    width, height : int
        Pixels of the frame.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        There is no curve.
    """
    if not curves:
        raise DataError(
            "there is nothing to draw: pass the curves of a study, study.curves()", code="no-data"
        )
    every = np.concatenate([_points(curve) for curve in curves.values()])
    low, high = float(every.min()), float(every.max())
    room = max((high / low) ** 0.06, 1.1)
    first = next(iter(curves.values()))
    name = title or _label(first)
    panel = _panel(name, curves, list(curves), (low / room, high * room), (width, height), True)
    panel.yaxis.axis_label = _label(first)
    largest = max(float(curve.samples.x[-1]) for curve in curves.values())
    return Figure(panel, f"Least at {_at(first, largest)}: {_fastest(curves)}.", _alt({name: curves}))


def _panel(
    machine: str,
    programs: Mapping[str, Curve],
    names: list[str],
    span: tuple[float, float],
    size: tuple[int, int],
    with_legend: bool,
) -> figure:
    x = np.unique(np.concatenate([curve.samples.x for curve in programs.values()]))
    margin = (x[-1] / x[0]) ** 0.06 if x.size > 1 else 1.2
    fig = figure(
        frame_width=size[0],
        frame_height=size[1],
        x_axis_type="log",
        y_axis_type="log",
        x_range=Range1d(float(x[0] / margin), float(x[-1] * margin)),
        y_range=Range1d(*span),
        tools=TOOLS,
        active_drag=None,
    )
    items = [
        LegendItem(label=name, renderers=_line(fig, curve, names.index(name), name))
        for name, curve in programs.items()
    ]
    if with_legend:
        # a legend shows glyphs of its own plot: of a program that other machines ran, a line without points
        for name in names:
            if name not in programs:
                items.append(LegendItem(label=name, renderers=_line(fig, None, names.index(name), name)))
        items.sort(key=lambda item: names.index(item.label.value))
        legend = Legend(
            items=items, label_text_font=FONT, label_text_font_size="12px", border_line_color=None
        )
        legend.click_policy = "hide"
        fig.add_layout(legend, "right")
    first = next(iter(programs.values()))
    fig.xaxis.axis_label = "ranks p" if first.column == "ranks" else first.column
    rank_axis(fig.xaxis[0], x, room=max(3, size[0] // 40))
    value_axis(fig.yaxis, first.unit, *span)
    fig.add_layout(heading(machine, 14), "above")
    style_axes([fig])
    fig.xgrid.ticker, fig.ygrid.ticker = fig.xaxis[0].ticker, fig.yaxis[0].ticker
    return fig


def _line(fig: figure, curve: Curve | None, number: int, name: str) -> list[Any]:
    """Draw a curve; without one a line that only a legend shows."""
    color = COLORS[number % len(COLORS)]
    x, points = (np.array([np.nan]),) * 2 if curve is None else (curve.samples.x, _points(curve))
    texts = ["" if curve is None else markup.quantity(float(value), curve.unit, 3) for value in points]
    source = ColumnDataSource({"x": x, "y": points, "text": texts, "name": [name] * len(points)})
    line = fig.line("x", "y", source=source, color=color, width=2.2, line_dash=DASHES[number % len(DASHES)])
    marks = fig.scatter(
        "x",
        "y",
        source=source,
        color=color,
        size=8,
        marker=MARKERS[number % len(MARKERS)],
        line_color="white",
    )
    fig.add_tools(HoverTool(renderers=[marks], tooltips=[("", "@name"), ("at", "@x{0,0}"), ("", "@text")]))
    return [line, marks]


def _points(curve: Curve) -> NDArray[np.float64]:
    return curve.samples.aggregate("quartile")


def _label(curve: Curve) -> str:
    name = f"time of {curve.phase}" if curve.phase else curve.metric.removesuffix("_s").replace("_", " ")
    return name if curve.unit in markup.SI_UNITS or not curve.unit else f"{name} [{curve.unit}]"


def _reading(curves: Mapping[str, Mapping[str, Curve]]) -> str:
    """Return as text which program is the fastest at the largest size, machine by machine."""
    winners: dict[str, list[str]] = {}
    for machine, programs in curves.items():
        winners.setdefault(_fastest(programs), []).append(machine)
    largest = max(float(c.samples.x[-1]) for programs in curves.values() for c in programs.values())
    said = "; ".join(f"{name} on {', '.join(machines)}" for name, machines in winners.items())
    first = next(curve for programs in curves.values() for curve in programs.values())
    return f"Fastest at {_at(first, largest)}: {said}."


def _at(curve: Curve, largest: float) -> str:
    """Name a place on the axis of sizes, with what is counted there."""
    if curve.column == "ranks":
        return markup.quantity(largest, "ranks")
    return f"{curve.column} = {markup.number(largest)}"


def _fastest(programs: Mapping[str, Curve]) -> str:
    return min(programs, key=lambda name: float(_points(programs[name])[-1]))


def _alt(curves: Mapping[str, Mapping[str, Curve]]) -> str:
    said = []
    for machine, programs in curves.items():
        values = ", ".join(
            f"{name} {markup.quantity(float(_points(curve)[0]), curve.unit, 3)} to "
            f"{markup.quantity(float(_points(curve)[-1]), curve.unit, 3)}"
            for name, curve in programs.items()
        )
        said.append(f"{machine}: {values}")
    return f"Lines over the ranks, both axes logarithmic, first to last value. {'; '.join(said)}."
