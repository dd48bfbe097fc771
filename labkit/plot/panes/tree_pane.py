"""A pane with a tree: a row for each node, its value before its name, a square in the value's colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, HoverTool, Range1d, TapTool
from bokeh.plotting import figure

from labkit.plot.style import FONT, heading, style_axes
from labkit.plot.tools import TOOLS

__all__ = ["ROW_PX", "Row", "kept_rows", "tree_data", "tree_pane"]

ROW_PX = 19
#: of a letter, roughly, and of a step to the right
_LETTER_PX, _STEP_PX = 6.4, 13


class Row(NamedTuple):
    """A node of the tree as it is shown.

    Attributes
    ----------
    node : int
        Its number.
    depth : int
    mark : str
        "▾" where its parts follow, "▸" where they are folded, "" where it has none.
    label, value, tip : str
    color : str
    """

    node: int
    depth: int
    mark: str
    label: str
    value: str
    tip: str
    color: str


def kept_rows(above: Sequence[int], weight: Sequence[float], most: int, chosen: int) -> list[int]:
    """Choose the nodes that are shown where there are too many: the heaviest, with all that they lie in.

    Parameters
    ----------
    above : sequence of int
        The node around each, which stands before it; -1 of a root.
    weight : sequence of float
    most : int
        Nodes at most, or a few more: as many as lie around the last one.
    chosen : int
        One that is shown in any case.

    Returns
    -------
    list of int
        In rising order.

    Examples
    --------
    >>> kept_rows([-1, 0, 1, 0], [0, 1, 5, 2], 3, 0)
    [0, 1, 2]
    """
    if len(above) <= most:
        return list(range(len(above)))
    kept: set[int] = set()
    for node in [chosen, *sorted(range(len(above)), key=lambda one: -abs(weight[one]))]:
        if len(kept) >= most:
            break
        while node >= 0 and node not in kept:
            kept.add(node)
            node = above[node]
    return sorted(kept)


def tree_data(rows: Sequence[Row], chosen: int, width: int) -> dict[str, Any]:
    """Return the columns of a pane's source: `rows`, of which the node `chosen` is marked."""
    left = [6 + _STEP_PX * row.depth for row in rows]
    return {
        "y": list(range(len(rows))), "node": [row.node for row in rows], "tip": [row.tip for row in rows],
        "back": ["#FFE9A8" if row.node == chosen else "#FFFFFF" for row in rows],
        "x_mark": left, "mark": [row.mark for row in rows], "x_box": [at + 17 for at in left],
        "color": [row.color for row in rows], "x_value": [at + 26 for at in left],
        "text": [_cut(row, at, width) for row, at in zip(rows, left, strict=True)],
    }  # fmt: skip


def tree_pane(title: str, data: dict[str, Any], room: int, name: str, width: int, height: int) -> Any:
    """Draw a pane.

    Parameters
    ----------
    title : str
    data : dict
        `tree_data`.
    room : int
        Rows that there is room for.
    name : str
        Of the glyphs that a tap hits; their source's column ``node`` says which it was.
    width, height : int
        Pixels.
    """
    fig = figure(
        width=width, height=height, tools=TOOLS, active_drag=None, x_range=Range1d(0, width),
        y_range=Range1d(room - 0.4, -0.6), toolbar_location=None,
    )  # fmt: skip
    source = ColumnDataSource(data)
    bars = fig.hbar(
        y="y", left=0, right=width, height=1.0, fill_color="back", line_color=None, source=source, name=name,
    )  # fmt: skip
    bars.nonselection_glyph = bars.selection_glyph = None
    letters: dict[str, Any] = {"text_font": value(FONT), "text_baseline": "middle", "text_color": "#222222"}
    fig.text(x="x_mark", y="y", text="mark", text_font_size="11px", source=source, **letters)
    fig.scatter(
        x="x_box", y="y", size=11, marker="square", fill_color="color", line_color="#888888", source=source
    )
    fig.text(x="x_value", y="y", text="text", text_font_size="12px", source=source, **letters)
    fig.add_tools(HoverTool(renderers=[bars], tooltips=[("", "@tip")], attachment="below"))
    fig.add_tools(TapTool(renderers=[bars]))
    fig.axis.visible = False
    fig.grid.visible = False
    style_axes([fig])
    fig.add_layout(heading(title, 13), "above")
    return fig


def _cut(row: Row, left: float, width: int) -> str:
    """Put value and label together, as much as there is room for."""
    room = int((width - left - 32) / _LETTER_PX)
    text = f"{row.value}  {row.label}"
    return text if len(text) <= room else f"{text[: max(room - 1, 4)]}…"
