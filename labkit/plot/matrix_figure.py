"""A study over two of its parameters as a heat map: one metric, a cell for each pair of values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, LinearColorMapper
from bokeh.plotting import figure

from labkit.checks import echo
from labkit.errors import DataError, nearest
from labkit.plot.figure import Figure
from labkit.plot.style import FONT, HEAT, LETTER_PX, TOOLS, heading, style_axes
from labkit.text import html as markup

if TYPE_CHECKING:
    import pandas as pd

    from labkit.study import Study

__all__ = ["matrix"]

Floats = npt.NDArray[np.float64]

#: cells that take this many times the least of their row have the darkest color
_DARKEST = 8.0
#: pixels that a notebook on a small screen shows next to its panes, a page of the site next to its contents
_WIDEST = 840


def matrix(
    study: Study,
    rows: str,
    columns: str,
    metric: str = "makespan_s",
    *,
    where: Mapping[str, object] | None = None,
    width: int | None = None,
) -> Figure:
    """Draw one metric over two parameters, such as sorters on the columns and inputs on the rows.

    Parameters
    ----------
    study : Study
        With both parameters and the metric.
    rows, columns : str
        Names of parameters.
    metric : str
        Of the whole run; the first quartile of repetitions is shown.
    where : mapping, optional
        Which rows of the study, where further parameters vary.
    width : int, optional
        Pixels; default: as wide as the names require, at most 840; names that need more room are slanted.

    Returns
    -------
    Figure
        The number of each cell is the metric, its color the ratio to the least value of its row.

    Raises
    ------
    DataError
        There is no such parameter or metric, or another parameter varies that `where` does not fix.
    """
    table = _table(study.data, rows, columns, metric, dict(where or {}))
    values = table.to_numpy(dtype=np.float64)
    least = np.nanmin(values, axis=1, keepdims=True)
    ratio = np.where(values == least, 1.0, values / np.where(least > 0, least, np.nan))
    across, down = [str(v) for v in table.columns], [str(v) for v in table.index]
    unit = str(study.data.loc[study.data["metric"] == metric, "unit"].iloc[0])
    y, x = np.nonzero(np.isfinite(values))
    texts = [markup.quantity(float(values[i, j]), unit, 2) for i, j in zip(y, x, strict=True)]
    shade = np.log2(np.clip(np.nan_to_num(ratio[y, x], nan=_DARKEST), 1.0, _DARKEST))
    source = ColumnDataSource({
        "column": [across[j] for j in x], "row": [down[i] for i in y], "text": texts, "shade": shade,
        "ratio": np.round(ratio[y, x], 2),
        "ink": ["#ffffff" if one > 0.6 * np.log2(_DARKEST) else "#222222" for one in shade],
    })  # fmt: skip
    fitting = _fitting_width(across, down)
    width = width or min(fitting, _WIDEST)
    slanted = 0.6 * LETTER_PX * max(map(len, across)) if fitting > width else 0.0
    fig = figure(
        width=width, height=120 + round(slanted) + 26 * len(down), x_range=FactorRange(*across), tools=TOOLS,
        y_range=FactorRange(*down[::-1]), x_axis_location="above", active_drag=None,
    )  # fmt: skip
    mapper = LinearColorMapper(palette=HEAT, low=0.0, high=float(np.log2(_DARKEST)))
    fill = {"field": "shade", "transform": mapper}
    cells = fig.rect("column", "row", 0.96, 0.94, source=source, line_color=None, fill_color=fill)
    where_in_cell = {"text_align": "center", "text_baseline": "middle"}
    letters = {"text_color": "ink", "text_font_size": "11px", "text_font": value(FONT)}
    fig.text("column", "row", "text", source=source, **where_in_cell, **letters)
    tips = [(columns, "@column"), (rows, "@row"), (metric, "@text"), ("times the least of the row", "@ratio")]
    fig.add_tools(HoverTool(renderers=[cells], tooltips=tips))
    fixed = "".join(f", {key} = {one}" for key, one in (where or {}).items())
    fig.add_layout(heading(f"{metric}{fixed}"), "above")
    style_axes([fig])
    fig.grid.visible = False
    fig.xaxis.major_label_orientation = 0.6 if slanted else "horizontal"  # radians
    reading = f"{metric} by {rows} and {columns}{fixed}; {_reading(across, np.nanmax(ratio, axis=0))}"
    return Figure(fig, reading, f"Heat map. {reading}")


def _fitting_width(across: list[str], down: list[str]) -> int:
    """Return the least width in pixels at which the names of neighboring columns do not touch."""
    pairs = [len(a) + len(b) for a, b in pairwise([across[0], *across, across[-1]])]
    cell = max(80.0, 10 + LETTER_PX * max(pairs) / 2)
    return round(40 + LETTER_PX * max(map(len, down)) + len(across) * cell)


def _reading(names: list[str], worst: Floats) -> str:
    """Return as text how far each column is from the least of the rows, at worst."""
    steady = int(np.argmin(worst))
    best = f"is never more than {worst[steady]:.3g} times the least"
    others = (
        f"{name} up to {w:.3g}" for k, (name, w) in enumerate(zip(names, worst, strict=True)) if k != steady
    )
    return (
        f"a cell's color is its ratio to the least value of its row, up to {_DARKEST:g}. "
        f"{names[steady]} {best if worst[steady] > 1 else 'has the least in each row'}; {', '.join(others)}."
    )


def _table(
    data: pd.DataFrame, rows: str, columns: str, metric: str, where: Mapping[str, object]
) -> pd.DataFrame:
    """Return the first quartiles as a table, in the order of the study's values."""
    for name in (rows, columns, *where):
        if name not in data.columns:
            meant = nearest(name, list(map(str, data.columns)), 1, 0.5)
            raise DataError(f"the study has no parameter {echo(name)}{meant}", code="unknown-name")
    known = sorted(set(data.loc[data["phase"] == "", "metric"]))
    if metric not in known:
        raise DataError(
            f"the study has no metric {echo(metric)}; it has: {', '.join(known)}", code="unknown-name"
        )
    chosen = data[(data["metric"] == metric) & (data["phase"] == "")]
    for name, wanted in where.items():
        chosen = chosen[chosen[name] == wanted]
    from labkit.study.rows import parameter_columns

    free = [c for c in parameter_columns(chosen) if c not in (rows, columns) and chosen[c].nunique() > 1]
    if free or chosen.empty:
        values = ", ".join(map(str, chosen[free[0]].unique()[:8])) if free else ""
        said = (
            f"{free[0]} varies as well; choose one of {values}: where={{{free[0]!r}: ...}}"
            if free
            else "no row is left"
        )
        raise DataError(f"matrix of {metric} over {rows} and {columns}: {said}")
    table = chosen.groupby([rows, columns], sort=False)["value"].quantile(0.25).unstack(columns)
    order = [list(dict.fromkeys(chosen[name])) for name in (rows, columns)]
    return table.reindex(index=order[0], columns=order[1])
