"""Figures of a study's phases: one small scaling figure each, and where the time goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Legend, LegendItem
from bokeh.plotting import figure

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.scaling_figure import curves_of, draw
from labkit.plot.style import COLORS, FONT, HATCHES, MATCH_COLORS, grid_of, heading, share_ticks, style_axes
from labkit.text import html as markup

if TYPE_CHECKING:
    from labkit.scaling.model import Model
    from labkit.scaling.samples import Samples
    from labkit.study import Study, Table

__all__ = ["phases", "shares"]


def phases(
    study: Study, table: Table | None = None, *, columns: int = 2, width: int = 380, height: int = 290
) -> Figure:
    """Draw every entry of a study's table as a small scaling figure.

    Parameters
    ----------
    study : Study
        The measurements.
    table : Table, optional
        `Study.table` of it; default: without expectations.
    columns : int
        Figures in a row.
    width, height : int
        Pixels of one figure.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        It is no study.
    """
    if not hasattr(study, "table"):
        raise DataError(
            f"the phases of a study are drawn here, got a {type(study).__name__}; those of one run are drawn "
            "by labkit.plot.gantt(run), and run.phase_table() has them as numbers",
            code="wrong-type",
        )
    table = study.table() if table is None else table
    small, said, is_nearest = [], [], False
    for name, model, verdict in table:
        if model is None and verdict is None:
            continue
        phase = None if name == "whole run" else name
        samples = (verdict.samples if verdict is not None else None) or study.curve(
            "phase_s" if phase else "makespan_s", phase
        ).samples
        curves = curves_of(verdict, model, samples)
        is_nearest = is_nearest or (model is not None and model.is_nearest)
        fig = draw(curves, verdict, model, "s", "p", width, height, with_legend=False)
        if verdict is not None:
            text = f"{markup.MATCH_SIGNS[verdict.match]} {verdict.match}: "
            expected = verdict.expectation.term
            is_met = verdict.match == "exact"
            text += f"{_grown(model)}, {'as expected' if is_met else f'expected {expected.pretty()}'}"
            color = MATCH_COLORS[verdict.match]
        else:
            text, color = _grown(model), "#444444"
        fig.add_layout(heading(text, 12, color), "above")
        fig.add_layout(heading(name, 14), "above")
        small.append(fig)
        said.append(f"{name}: {text}")
    grid = grid_of(small, columns)
    solid = "model" + (", or the nearest curve (?) where no model fits" if is_nearest else "")
    reading = f"Dots: measured; solid line: {solid}; dashed line: expectation; shaded: within the limits."
    return Figure(grid, reading, "Small scaling figures of each phase. " + "; ".join(said) + ".")


def _grown(model: Model | None) -> str:
    if model is None:
        return "too few values"
    if model.term.is_constant and not model.is_nearest:
        return "levels off" if model.others else "constant"
    return f"{model.term.pretty()}{'?' if model.is_nearest else ''}"


def shares(
    study: Study, *, where: Mapping[str, object] | None = None, width: int = 760, height: int = 320
) -> Figure:
    """Draw the share of each phase in the time, as a stack of bars over the ranks.

    Parameters
    ----------
    study : Study
        A study with phases.
    where : mapping, optional
        Which rows, where other parameters vary too.
    width, height : int
        Pixels.

    Returns
    -------
    Figure
    """
    names = study.phases
    lines = [study.curve("phase_s", name, where=where) for name in names]
    x = lines[0].samples.x
    values = np.array([[_at(line.samples, v) for v in x] for line in lines])
    total = values.sum(axis=0)
    parts = values / total
    factors = [f"{markup.number(v)}" for v in x]
    fig = figure(width=width, height=height, x_range=FactorRange(*factors), y_range=(0, 1), tools="save")
    bottom, items = np.zeros(x.size), []
    for i, name in enumerate(names):
        source = ColumnDataSource({
            "x": factors, "bottom": bottom, "top": bottom + parts[i],
            "name": [name] * x.size, "share": parts[i],
            "text": [markup.quantity(float(v), "s", 3) for v in values[i]],
        })  # fmt: skip
        bar = fig.vbar(
            x="x",
            bottom="bottom",
            top="top",
            source=source,
            width=0.72,
            color=COLORS[i % len(COLORS)],
            line_color="white",
            hatch_pattern=HATCHES[i % len(HATCHES)],
            hatch_color="white",
            hatch_alpha=0.45,
            hatch_scale=9,
        )
        tips = [("phase", "@name"), ("share", "@share{0.0 %}"), ("time", "@text")]
        fig.add_tools(HoverTool(renderers=[bar], tooltips=tips))
        items.append(LegendItem(label=name, renderers=[bar]))
        bottom = bottom + parts[i]
    fig.add_layout(Legend(items=items[::-1], label_text_font=FONT, border_line_color=None), "right")
    fig.xaxis.axis_label = {"ranks": "ranks p"}.get(lines[0].column, lines[0].column)
    fig.yaxis.axis_label = "share of the phases' time"
    fig.yaxis.formatter = share_ticks()
    fig.add_layout(heading("Where the time goes"), "above")
    style_axes([fig])
    fig.xgrid.grid_line_color = None
    most = names[int(np.argmax(parts[:, -1]))]
    reading = f"At {factors[-1]} ranks the phase {most} takes {parts[:, -1].max():.0%} of the time."
    spoken = "; ".join(
        f"{name}: {parts[i, 0]:.0%} at {factors[0]}, {parts[i, -1]:.0%} at {factors[-1]}"
        for i, name in enumerate(names)
    )
    return Figure(fig, reading, f"Stacked bars of the share of each phase over the ranks. {spoken}.")


def _at(samples: Samples, value: float) -> float:
    found = np.flatnonzero(samples.x == value)
    return float(np.percentile(samples.groups[int(found[0])], 25)) if found.size else 0.0
