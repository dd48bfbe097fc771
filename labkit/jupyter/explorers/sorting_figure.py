"""The picture of a sort's step: every rank's keys as bars, and the matrix of keys that moved."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.core.properties import value as constant
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

from labkit.jupyter.explorers.sorting_view import Played
from labkit.plot.figure import Figure
from labkit.plot.style import COLORS, FONT, HEAT, count_axis, heading, style_axes
from labkit.plot.tools import TOOLS, grid_of

__all__ = ["step_figure"]

_HEIGHT = 400


def step_figure(played: Played, step: int) -> Figure:
    """Draw what every rank holds after a step, and which keys moved in it.

    Parameters
    ----------
    played : Played
    step : int
        0 is the input.
    """
    step = min(max(step, 0), len(played.steps) - 1)
    sizes = ", ".join(str(len(keys)) for keys in played.steps[step].keys)
    reading = played.reading(step)
    alt = (
        f"Keys of every rank as bars, and a matrix of the keys that moved. {reading} Keys per rank: {sizes}."
    )
    return Figure(grid_of([_bars(played, step), _matrix(played, step)]), reading, alt)


def _bars(played: Played, step: int) -> Any:
    one, target = played.steps[step], played.target(step)
    ranks, n = len(one.keys), len(one.owner)
    longest = max(len(s.keys[r]) for s in played.steps for r in range(ranks))
    rank = np.concatenate([np.full(len(keys), r) for r, keys in enumerate(one.keys)])
    place = np.concatenate([np.arange(len(keys)) for keys in one.keys])
    key = np.concatenate(one.keys)
    tall = 0.12 + 0.7 * key / max(n - 1, 1)
    origin = played.steps[0].owner
    source = ColumnDataSource({
        "left": place + 0.04, "right": place + 0.96, "bottom": rank + 0.42, "top": rank + 0.42 - tall,
        "color": [Cividis256[round(255 * k / max(n - 1, 1))] for k in key.tolist()],
        "key": key, "rank": rank, "origin": origin[key], "target": target[key],
    })  # fmt: skip
    fig = figure(
        width=530, height=_HEIGHT, tools=TOOLS, active_drag=None, x_range=Range1d(-0.3, longest + 0.3),
        y_range=Range1d(ranks - 0.45, -0.55),
    )  # fmt: skip
    drawn = fig.quad(
        left="left", right="right", bottom="bottom", top="top", source=source, fill_color="color",
        line_color=None,
    )  # fmt: skip
    tips = [("key", "@key"), ("on rank", "@rank"), ("from rank", "@origin"), ("next to rank", "@target")]
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    if step + 1 < len(played.steps) and (played.steps[step + 1].owner != one.owner).any():
        _cuts(fig, [target[keys] for keys in one.keys])
    count_axis(fig.yaxis[0], "rank", ranks)
    count_axis(fig.xaxis[0], "key's place on its rank", longest)
    fig.xaxis.visible = longest > 1
    fig.add_layout(heading(f"after {one.phase}" if step else "input", 14), "above")
    style_axes([fig])
    fig.grid.visible = False
    return fig


def _cuts(fig: Any, targets: list[Any]) -> None:
    """Mark where a rank's keys are cut into pieces for other ranks."""
    at = [(r, i + 1) for r, to in enumerate(targets) for i in np.flatnonzero(np.diff(to)).tolist()]
    fig.segment(
        [x for _, x in at], [r - 0.46 for r, _ in at], [x for _, x in at], [r + 0.46 for r, _ in at],
        color=COLORS[1], line_width=2.5,
    )  # fmt: skip


def _matrix(played: Played, step: int) -> Any:
    table = played.moved(step)
    ranks = len(table)
    row, column = (each.ravel() for each in np.indices(table.shape))
    count = table.ravel()
    away = np.where(np.eye(ranks, dtype=bool), 0, table).ravel()
    top = max(int(table.max()), 1)
    shade = [HEAT[round((len(HEAT) - 1) * c / top)] if c else "white" for c in count.tolist()]
    source = ColumnDataSource({
        "row": row, "column": column, "count": count, "color": shade,
        "text": [str(c) if c else "" for c in count.tolist()],
        "ink": ["white" if c > 0.45 * top else "#222222" for c in count.tolist()],
        "edge": [COLORS[1] if a else "#dddddd" for a in away.tolist()],
    })  # fmt: skip
    fig = figure(
        width=350, height=_HEIGHT, tools=TOOLS, active_drag=None, x_range=Range1d(-0.6, ranks - 0.4),
        y_range=Range1d(ranks - 0.4, -0.6),
    )  # fmt: skip
    drawn = fig.rect(
        "column", "row", width=0.9, height=0.9, source=source, fill_color="color", line_color="edge"
    )
    tips = [("from rank", "@row"), ("to rank", "@column"), ("keys", "@count")]
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    if ranks <= 12:
        fig.text(
            "column", "row", "text", source=source, text_align="center", text_baseline="middle",
            text_color="ink", text_font=constant(FONT), text_font_size="11px",
        )  # fmt: skip
    count_axis(fig.xaxis[0], "to rank", ranks)
    count_axis(fig.yaxis[0], "from rank", ranks)
    fig.add_layout(heading("keys that went from rank to rank", 14), "above")
    style_axes([fig])
    fig.grid.visible = False
    return fig
