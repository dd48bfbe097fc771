"""Regions of an off-line tuning: which algorithm is the fastest at which number of ranks and size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Legend, LegendItem
from bokeh.plotting import figure

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import COLORS, FONT, HATCHES, TOOLS, heading, style_axes
from labkit.text.html import quantity
from labkit.text.units import format_bytes, format_share

if TYPE_CHECKING:
    from labkit.tuning.tuned import Tuned

__all__ = ["regions"]

#: colors without a hatch first; the next ones have one
_LOOKS = [(color, hatch) for hatch in HATCHES for color in COLORS]
_BORDER, _DOT = "#111111", "#ffffff"
#: the tree loses nothing worth a mark
_EQUAL = 1e-3


def regions(tuned: Tuned, *, width: int = 560) -> Figure:
    """Draw the fastest algorithm over ranks and bytes, and the borders of the decision tree.

    Parameters
    ----------
    tuned : Tuned
        What ``lk.tune("allreduce", ...)`` returned.
    width : int
        Pixels inside the axes.

    Returns
    -------
    Figure
        A field for each point that was simulated, in the color of the fastest algorithm; black lines part
        the fields for which the tree takes different ones; a white dot is where the tree's choice is slower
        than the fastest.

    Raises
    ------
    DataError
        Nothing was simulated.
    """
    best = tuned.best
    if best.empty:
        raise DataError("nothing was simulated: there are no regions to draw", code="no-data")
    ranks, sizes = sorted(best["ranks"].unique()), sorted(best["bytes"].unique())
    size_of = {n: format_bytes(int(n)) for n in sizes}
    if len(set(size_of.values())) < len(sizes):  # rounded, two would be one
        size_of = {n: f"{int(n):,} B" for n in sizes}
    rows, columns = [f"{p:,}" for p in ranks], list(size_of.values())
    counts = best["algorithm"].value_counts()
    order = sorted(counts.index, key=lambda name: (-counts[name], name))
    look = {name: _LOOKS[number % len(_LOOKS)] for number, name in enumerate(order)}
    fig = figure(
        frame_width=width, frame_height=max(90, 46 * len(rows)), tools=TOOLS, active_drag=None,
        x_range=FactorRange(*columns), y_range=FactorRange(*rows),
    )  # fmt: skip
    cells = _cells(tuned, size_of)
    items = []
    for name in order:
        own = cells[cells["fastest"] == name]
        source = ColumnDataSource({key: own[key].tolist() for key in own})
        color, hatch = look[name]
        drawn = fig.rect(
            "x", "y", width=1, height=1, source=source, fill_color=color, line_color="white",
            hatch_pattern=hatch, hatch_color="white", hatch_alpha=0.7,
        )  # fmt: skip
        items.append(LegendItem(label=name, renderers=[drawn]))
    tips = [("ranks, bytes", "@at"), ("fastest", "@fastest, @time"), ("next", "@next"), ("tree", "@tree")]
    fig.add_tools(HoverTool(renderers=[item.renderers[0] for item in items], tooltips=tips))
    ends = _borders(cells, rows, columns)
    if ends["x0"]:
        lines = fig.segment(**ends, line_color=_BORDER, line_width=2.5)
        items.append(LegendItem(label="border of the decision tree", renderers=[lines]))
    late = cells[cells["loss"] > _EQUAL]
    if len(late):
        dots = fig.scatter(
            late["x"].tolist(), late["y"].tolist(), size=9, color=_DOT, line_color=_BORDER, marker="circle"
        )
        items.append(LegendItem(label="the tree takes a slower one", renderers=[dots]))
    fig.xaxis.axis_label = "the message's or a block's bytes"
    fig.yaxis.axis_label = "ranks p"
    fig.add_layout(heading(f"{tuned.operation} on {tuned.machine.name}", 14), "above")
    fig.add_layout(
        Legend(items=items, label_text_font=FONT, label_text_font_size="12px", border_line_color=None),
        "right",
    )
    style_axes([fig])
    fig.grid.grid_line_color = None
    reading = _reading(tuned, counts, order, len(late))
    said = "; ".join(f"p = {p:,}: {_runs(best[best['ranks'] == p])}" for p in ranks)
    return Figure(fig, reading, f"A field for each number of ranks and size. {reading} {said}.")


def _cells(tuned: Tuned, size_of: dict[object, str]) -> pd.DataFrame:
    """Return a row for each point: where it is drawn, who is the fastest, who comes next, what is taken."""
    known = dict(iter(tuned.times.groupby(["ranks", "bytes"])))
    rows = []
    for p, n, name, time_s in tuned.best[["ranks", "bytes", "algorithm", "time_s"]].itertuples(index=False):
        here = known[p, n].set_index("algorithm")["time_s"]
        others = here.drop(name).sort_values()
        second = f"{others.index[0]}, {quantity(float(others.iloc[0]), 's')}" if len(others) else "none"
        taken = next((leaf.algorithm for leaf in tuned.tree if leaf.holds(p, n)), name)
        loss = float(here[taken]) / time_s - 1 if time_s > 0 else 0.0
        rows.append(
            {
                "x": size_of[n],
                "y": f"{p:,}",
                "at": f"p = {p:,}, {size_of[n]}",
                "fastest": name,
                "time": quantity(float(time_s), "s"),
                "next": second,
                "taken": taken,
                "tree": taken if loss <= _EQUAL else f"{taken}, {format_share(loss)} slower",
                "loss": loss,
            }
        )
    return pd.DataFrame(rows)


def _borders(cells: pd.DataFrame, rows: list[str], columns: list[str]) -> dict[str, list[tuple[str, float]]]:
    """Return segments between neighboring fields for which the tree takes different algorithms."""
    taken = cells.set_index(["x", "y"])["taken"].to_dict()
    ends: dict[str, list[tuple[str, float]]] = {"x0": [], "y0": [], "x1": [], "y1": []}
    for i, x in enumerate(columns):
        for j, y in enumerate(rows):
            here = taken.get((x, y))
            right = taken.get((columns[i + 1], y)) if i + 1 < len(columns) else None
            above = taken.get((x, rows[j + 1])) if j + 1 < len(rows) else None
            for other, begin in ((right, (0.5, -0.5)), (above, (-0.5, 0.5))):
                if here is None or other is None or here == other:
                    continue
                for end, at in (("0", begin), ("1", (0.5, 0.5))):
                    ends[f"x{end}"].append((x, at[0]))
                    ends[f"y{end}"].append((y, at[1]))
    return ends


def _runs(rows: pd.DataFrame) -> str:
    return ", ".join(
        f"{format_bytes(int(n))} {name}"
        for n, name in rows.sort_values("bytes")[["bytes", "algorithm"]].itertuples(index=False)
    )


def _reading(tuned: Tuned, counts: Any, order: list[str], late: int) -> str:
    points = len(tuned.best)
    tried = tuned.times["algorithm"].nunique()
    said = f"{tuned.operation} on {tuned.machine.name}: of {tried} algorithms {len(order)} "
    said += f"{'are' if len(order) > 1 else 'is'} the fastest somewhere, {order[0]} at {counts[order[0]]} of "
    said += f"{points} point{'s' if points > 1 else ''}. "
    if not late:
        return said + "The decision tree takes the fastest everywhere, or one that is hardly slower."
    lost = tuned.penalty()
    return said + (
        f"The decision tree takes a slower one at {late} of them, and loses {format_share(lost['mean'])} "
        f"on average, {format_share(lost['max'])} at most."
    )
