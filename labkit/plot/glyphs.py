"""Bokeh's glyphs drawn by matplotlib: each kind that labkit's figures are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GLYPHS", "Axes", "Columns", "Drawn", "Plot", "draw_glyph", "pt"]

#: a pixel of the screen (96 to the inch) in points (72 to the inch)
pt = 0.75

Axes = Any
#: a Bokeh plot, or a layout of them
Plot = Any
#: what a legend shows of a drawn glyph
Drawn = Any

_DASHES: dict[str, object] = {
    "solid": "-",
    "dashed": (0, (5, 3)),
    "dotted": (0, (1.2, 2)),
    "dotdash": (0, (1.2, 2, 5, 2)),
    "dashdot": (0, (5, 2, 1.2, 2)),
}
_MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "inverted_triangle": "v",
    "plus": "P",
    "star": "*",
    "hex": "H",
    "x": "X",
    "cross": "P",
    "dash": "_",
    "dot": ".",
}
_HATCHES = {
    "right_diagonal_line": "//",
    "dot": "..",
    "horizontal_line": "--",
    "left_diagonal_line": "\\\\",
    "cross": "++",
    "vertical_line": "||",
    "diagonal_cross": "xx",
    "ring": "oo",
    "horizontal_dash": "-",
    "vertical_dash": "|",
    "right_diagonal_dash": "/",
    "left_diagonal_dash": "\\",
}
_ALIGNED = {"middle": "center", "top": "top", "bottom": "bottom", "alphabetic": "baseline", "hanging": "top"}


class Columns:
    """The properties of one glyph: fields of its data source, or constants.

    Parameters
    ----------
    glyph : bokeh Glyph
    source : ColumnDataSource
    x_factors, y_factors : sequence of str, optional
        Names along a categorical axis.
    pt : float
        Points for each pixel of the layout.
    """

    def __init__(
        self, glyph: Any, source: Any, x_factors: object = None, y_factors: object = None, pt: float = pt
    ) -> None:
        self._glyph, self._data, self.pt = glyph, source.data, pt
        self._factors = {"x": x_factors, "y": y_factors}
        self.rows = max((len(column) for column in self._data.values()), default=0)

    def has(self, name: str) -> bool:
        """Whether the glyph has such a property, and it is set."""
        return getattr(self._glyph, name, None) is not None

    def one(self, name: str, default: object = None) -> Any:
        """Return a property that is the same for all rows, or that of the first row."""
        found = self.all(name, default)
        if isinstance(found, list | np.ndarray):
            return found[0] if len(found) else default
        return found

    def all(self, name: str, default: Any = None) -> Any:
        """Return a property: a list with one entry a row, or a constant."""
        spec: Any = getattr(self._glyph, name, None)
        try:
            descriptor = type(self._glyph).lookup(name)
        except AttributeError:
            return default
        if "DataSpec" in type(descriptor).__name__:  # a text may be a constant or the name of a column
            spec = descriptor.get_value(self._glyph)
        field, transform = getattr(spec, "field", None), getattr(spec, "transform", None)
        if type(spec).__name__ == "Value":
            spec = spec.value
        if field is not None:
            column = list(self._data.get(field, ()))
            return column if not _is_set(transform) else mapped(column, transform)
        return default if spec is None else spec

    def places(self, name: str) -> NDArray[np.float64]:
        """Return coordinates, one for each row; names along a categorical axis become their places."""
        found = self.all(name)
        if not isinstance(found, list):
            found = [found] * self.rows
        factors = self._factors.get("x" if name[:1] in "xlr" or name in ("width",) else "y")
        return np.array([place(value, factors) for value in found], dtype=float)


def _is_set(transform: object) -> bool:
    return hasattr(transform, "palette")


def place(value: Any, factors: Any) -> float:
    """Return a coordinate as a number; factor k lies at k + 1/2, as in Bokeh."""
    if isinstance(value, str) and factors is not None:
        return float(factors.index(value)) + 0.5
    if isinstance(value, tuple | list) and factors is not None:
        return float(factors.index(value[0]) + 0.5 + float(value[1]))
    return float("nan") if value is None else float(value)


def limits(column: object, mapper: Any) -> tuple[float, float]:
    """Return the values at the two ends of a color mapper."""
    values = np.asarray(column, dtype=float)
    low = float(np.nanmin(values)) if mapper.low is None else float(mapper.low)
    high = float(np.nanmax(values)) if mapper.high is None else float(mapper.high)
    return low, high


def mapped(column: object, mapper: Any) -> list[str]:
    """Return the colors of values."""
    values = np.asarray(column, dtype=float)
    if not values.size:
        return []
    low, high = limits(values, mapper)
    if "Log" in type(mapper).__name__:
        values, low, high = np.log(np.maximum(values, 1e-300)), np.log(low), np.log(high)
    share = (values - low) / (high - low) if high > low else np.zeros_like(values)
    palette = list(mapper.palette)
    index = np.clip(np.nan_to_num(share) * len(palette), 0, len(palette) - 1).astype(int)
    nothing = mapper.nan_color
    return [nothing if np.isnan(v) else palette[i] for i, v in zip(index, values, strict=True)]


def _colors(columns: Columns, kind: str) -> object:
    """Return colors with their opacity, as matplotlib reads them."""
    from matplotlib.colors import to_rgba

    colors, alphas = columns.all(f"{kind}_color"), columns.all(f"{kind}_alpha", 1.0)
    if colors is None:
        return "none"
    if not isinstance(colors, list) and not isinstance(alphas, list):
        return to_rgba(colors, float(alphas))
    rows = columns.rows
    each = colors if isinstance(colors, list) else [colors] * rows
    opacity = alphas if isinstance(alphas, list) else [alphas] * rows
    return [(0, 0, 0, 0) if c is None else to_rgba(c, float(a)) for c, a in zip(each, opacity, strict=True)]


def _line(columns: Columns, prefix: str = "line") -> dict[str, Any]:
    width = columns.all(f"{prefix}_width", 1)
    widths = [columns.pt * w for w in width] if isinstance(width, list) else columns.pt * width
    dash = columns.all(f"{prefix}_dash", "solid")
    if isinstance(dash, str) or not dash:
        style = _DASHES.get(dash or "solid", "-")
    else:  # lengths of strokes and gaps, in pixels
        style = (0, [max(1.0, float(part) / 2) for part in (dash if len(dash) > 1 else [*dash, *dash])])
    return {"linewidths": widths, "linestyles": style, "colors": _colors(columns, prefix)}


def _draw_line(axes: Axes, columns: Columns) -> Drawn:
    look = _line(columns)
    return axes.plot(
        columns.places("x"),
        columns.places("y"),
        color=look["colors"],
        linewidth=look["linewidths"],
        linestyle=look["linestyles"],
    )[0]


def _draw_scatter(axes: Axes, columns: Columns) -> Drawn:
    marker = columns.all("marker", "circle")
    size = columns.all("size", 4)
    sizes = [(columns.pt * s) ** 2 for s in size] if isinstance(size, list) else (columns.pt * size) ** 2
    x, y = columns.places("x"), columns.places("y")
    face, edge = _colors(columns, "fill"), _colors(columns, "line")
    kinds = marker if isinstance(marker, list) else [marker] * columns.rows
    drawn = None
    for kind in dict.fromkeys(kinds):
        keep = [i for i, one in enumerate(kinds) if one == kind]
        drawn = axes.scatter(
            x[keep],
            y[keep],
            s=_kept(sizes, keep),
            c=None,
            marker=_MARKERS.get(kind, "o"),
            facecolors=_kept(face, keep),
            edgecolors=_kept(edge, keep),
            linewidths=columns.pt * float(columns.one("line_width", 1)),
            zorder=3,
        )
    return drawn


def _kept(values: object, keep: list[int]) -> object:
    return [values[i] for i in keep] if isinstance(values, list) else values


def _draw_boxes(axes: Axes, columns: Columns, corners: Any) -> Drawn:
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    left, right, bottom, top = corners
    points = np.stack(
        [
            np.stack([left, bottom], 1),
            np.stack([right, bottom], 1),
            np.stack([right, top], 1),
            np.stack([left, top], 1),
        ],
        axis=1,
    )
    face, look = _colors(columns, "fill"), _line(columns)
    hatches = columns.all("hatch_pattern")
    kinds = hatches if isinstance(hatches, list) else [hatches] * len(points)
    first = None
    for kind in dict.fromkeys(kinds):
        keep = [i for i, one in enumerate(kinds) if one == kind]
        hatch = _HATCHES.get(str(kind))
        edge = _kept(look["colors"], keep)
        if hatch and (isinstance(edge, str) or columns.has("hatch_color")):
            edge = (0, 0, 0, 0.25)
        made = PolyCollection(
            list(points[keep]),
            facecolors=_kept(face, keep),
            edgecolors=edge,
            linewidths=0 if hatch else _kept(look["linewidths"], keep),
            hatch=hatch,
        )
        axes.add_collection(made, autolim=True)
        if hatch and columns.has("hatch_color"):  # one color is that of the hatch: the outline comes on top
            outline = PolyCollection(
                list(points[keep]),
                facecolors="none",
                edgecolors=_kept(look["colors"], keep),
                linewidths=_kept(look["linewidths"], keep),
            )
            axes.add_collection(outline, autolim=True)
        color = _kept(face, keep)
        shown = color[0] if isinstance(color, list) and color else color
        first = first or Patch(facecolor=shown or "none", edgecolor=(0, 0, 0, 0.25), hatch=hatch, linewidth=0)
    return first


def _draw_rect(axes: Axes, columns: Columns) -> Drawn:
    x, y = columns.places("x"), columns.places("y")
    w, h = columns.places("width") / 2, columns.places("height") / 2
    return _draw_boxes(axes, columns, (x - w, x + w, y - h, y + h))


def _draw_quad(axes: Axes, columns: Columns) -> Drawn:
    return _draw_boxes(axes, columns, [columns.places(n) for n in ("left", "right", "bottom", "top")])


def _draw_hbar(axes: Axes, columns: Columns) -> Drawn:
    y, half = columns.places("y"), columns.places("height") / 2
    return _draw_boxes(axes, columns, (columns.places("left"), columns.places("right"), y - half, y + half))


def _draw_vbar(axes: Axes, columns: Columns) -> Drawn:
    x, half = columns.places("x"), columns.places("width") / 2
    return _draw_boxes(axes, columns, (x - half, x + half, columns.places("bottom"), columns.places("top")))


def _draw_varea(axes: Axes, columns: Columns) -> Drawn:
    return axes.fill_between(
        columns.places("x"),
        columns.places("y1"),
        columns.places("y2"),
        facecolor=_colors(columns, "fill"),
        hatch=_HATCHES.get(str(columns.one("hatch_pattern"))),
        edgecolor=(0, 0, 0, 0.3),
        linewidth=0,
    )


def _draw_segments(axes: Axes, columns: Columns) -> Drawn:
    x0, y0, x1, y1 = (columns.places(name) for name in ("x0", "y0", "x1", "y1"))
    return _lines(axes, columns, list(np.stack([np.stack([x0, y0], 1), np.stack([x1, y1], 1)], axis=1)))


def _draw_multi_line(axes: Axes, columns: Columns) -> Drawn:
    lines = [np.column_stack(pair) for pair in zip(columns.all("xs"), columns.all("ys"), strict=True)]
    return _lines(axes, columns, lines)


def _lines(axes: Axes, columns: Columns, lines: list[Any]) -> Drawn:
    from matplotlib.collections import LineCollection

    made = LineCollection(lines, **_line(columns), capstyle="round")
    axes.add_collection(made, autolim=True)
    return made


def _draw_text(axes: Axes, columns: Columns) -> Drawn:
    texts, x, y = columns.all("text"), columns.places("x"), columns.places("y")
    across, up = columns.all("x_offset", 0), columns.all("y_offset", 0)
    colors, size = _colors(columns, "text"), str(columns.one("text_font_size", "12px"))
    points = (
        float(size.removesuffix("px")) * columns.pt if size.endswith("px") else float(size.removesuffix("pt"))
    )
    align = columns.all("text_align", "left")
    baseline = columns.all("text_baseline", "alphabetic")

    def at(values: object, i: int) -> Any:
        return values[i] if isinstance(values, list) else values

    for i, text in enumerate(texts if isinstance(texts, list) else [texts] * columns.rows):
        axes.annotate(
            str(text),
            (x[i], y[i]),
            xytext=(columns.pt * float(at(across, i)), -columns.pt * float(at(up, i))),
            textcoords="offset points",
            ha=at(align, i),
            fontsize=points,
            color=at(colors, i),
            va=_ALIGNED.get(at(baseline, i), "baseline"),
            annotation_clip=True,
            zorder=4,
            rotation=np.degrees(float(columns.one("angle", 0) or 0)),
        )
    return None


GLYPHS: dict[str, Callable[[Axes, Columns], Drawn]] = {
    "Line": _draw_line,
    "Scatter": _draw_scatter,
    "Rect": _draw_rect,
    "Quad": _draw_quad,
    "HBar": _draw_hbar,
    "VBar": _draw_vbar,
    "VArea": _draw_varea,
    "Segment": _draw_segments,
    "MultiLine": _draw_multi_line,
    "Text": _draw_text,
}


def draw_glyph(axes: Axes, glyph: object, columns: Columns) -> Drawn:
    """Draw one glyph; a kind that is not known here is left out, and the live picture has it."""
    draw = GLYPHS.get(type(glyph).__name__)
    return draw(axes, columns) if draw is not None and columns.rows else None
