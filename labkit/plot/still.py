"""Still pictures of figures: SVG, PNG or PDF by matplotlib, without a browser.

A live figure is gone when a notebook is opened without its kernel, exported, or shown by a code host. What
stays is a picture of the same Bokeh layout, next to the live one in the cell's output.
"""

from __future__ import annotations

import base64
import io
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.plot.glyphs import GLYPHS, Axes, Columns, Plot, draw_glyph, limits, pt
from labkit.plot.style import COUNT_JS, SHARE_JS, SI_JS, count_text, share_text, si_text, wrap

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure
    from PIL.Image import Image

    from labkit.plot.style import Drawn

__all__ = [
    "SETTINGS",
    "Sheet",
    "TextLine",
    "can_draw",
    "described",
    "draw_line",
    "draw_plot",
    "draw_still",
    "has_matplotlib",
    "is_live",
    "laid_out",
    "legend_of",
    "still_bundle",
    "titles",
    "written",
]


_LARGEST_PX, _USUAL_PX = 15.0, 13.0
#: a letter's mean width, and a line's height, in sizes of the letters
_WIDE, _BOLD, _HIGH = 0.57, 0.66, 1.4


@dataclass(frozen=True)
class TextLine:
    """A line of text: what it says, and its look."""

    text: str
    size_px: float
    color: str
    is_bold: bool

    @property
    def weight(self) -> str:
        """Its letters' weight, by matplotlib's name."""
        return "bold" if self.is_bold else "normal"

    @property
    def height_px(self) -> float:
        """What it takes of the picture's height."""
        return _HIGH * self.size_px


@dataclass
class Sheet:
    """What plots are drawn on: their screen, or a column of a paper.

    In a column a pixel of the layout is fewer points, and lines of text and legends have places of their own.
    """

    pt: float = pt
    #: in a column: what legends show, by the identifier of a Bokeh renderer
    shown: dict[str, object] | None = None


def titles(things: Sequence[Any]) -> Iterator[TextLine]:
    """Yield the lines of text among the objects next to a frame."""
    for thing in things:
        if type(thing).__name__ == "Title" and thing.text:
            size = str(thing.text_font_size or "").removesuffix("px")
            points = float(size) if size.replace(".", "").isdigit() else _USUAL_PX
            is_bold = "bold" in str(thing.text_font_style)
            yield TextLine(thing.text, min(points, _LARGEST_PX), thing.text_color or "#222222", is_bold)


def below(plot: Plot, width_px: float) -> list[TextLine]:
    """Return the lines below a plot, downwards; lines of one look are broken again to fit the width.

    Matplotlib's letters are wider than a browser's.
    """
    lines = []
    for _, same in groupby(titles(plot.below), key=lambda one: (one.size_px, one.color, one.is_bold)):
        first, *others = same
        letters = int(width_px / (first.size_px * (_BOLD if first.is_bold else _WIDE)))
        for text in wrap(" ".join([first.text, *(one.text for one in others)]), max(20, letters)):
            lines.append(TextLine(text, first.size_px, first.color, first.is_bold))
    return lines


def draw_above(axes: Axes, plot: Plot) -> None:
    """Draw the lines above a plot, upwards from its frame."""
    above = 3.0
    for line in titles((plot.title, *plot.above)):
        points = pt * line.size_px
        axes.annotate(
            line.text,
            (0, 1),
            xycoords="axes fraction",
            xytext=(0, above),
            textcoords="offset points",
            fontsize=points,
            color=line.color,
            va="bottom",
            annotation_clip=False,
            weight=line.weight,
        )
        above += 1.35 * points * (line.text.count("\n") + 1)


def draw_line(page: MatplotlibFigure, line: TextLine, left: float, middle: float, pt: float = pt) -> None:
    """Draw a line at a place of a page, in shares of it."""
    page.text(
        left,
        middle,
        line.text,
        fontsize=pt * line.size_px,
        color=line.color,
        va="center",
        weight=line.weight,
    )


#: names of environment variables of kernels that a page with widgets talks to
_PAGES = ("JPY_SESSION_NAME", "VSCODE_", "COLAB_")
#: "1" or "0" instead of a look at these
VARIABLE = "LABKIT_LIVE"
#: pixels of a still picture for each pixel of the screen
_SCALE = 1.5
#: of a picture in a notebook's file
_COLORS = 256
#: from which on a shade in all three colors is white
_WHITE = 252
#: PIL's numbers of a way to choose colors, and of one to spread them
_OCTREE, _NO_DITHER = 2, 0
#: pixels of the screen to the inch
_PER_INCH = 96.0
#: of matplotlib: letters stay letters, and the same figure is the same file. IEEE and ACM refuse PDF with
#: fonts of type 3.
SETTINGS = {
    "font.family": ["DejaVu Sans"],
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "labkit",
    "hatch.linewidth": 0.5,
    "axes.unicode_minus": False,
    "path.simplify_threshold": 0.3,
}
_GAP_PX = 8.0
_READING_PX = 13.0
#: room for an axis with its name, what that takes below a frame, and room for a letter of a legend outside
_AXIS_PX, _NAMED_AXIS_PX, _LETTER_PX = 72.0, 44.0, 6.8
#: places of a legend inside a figure
_PLACES = {
    "top_left": "upper left",
    "top_right": "upper right",
    "bottom_left": "lower left",
    "bottom_right": "lower right",
    "top_center": "upper center",
    "bottom_center": "lower center",
    "center_left": "center left",
    "center_right": "center right",
    "center": "center",
    "top": "upper center",
    "bottom": "lower center",
    "left": "center left",
    "right": "center right",
}
#: where a legend or title stands outside: matplotlib's place, and the anchor in shares of the frame
_OUTSIDE = {
    "below": ("upper center", (0.5, 0.0)),
    "above": ("lower center", (0.5, 1.02)),
    "right": ("upper left", (1.02, 1.0)),
    "left": ("upper right", (-0.12, 1.0)),
}


def has_matplotlib() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def can_draw(figure: Drawn) -> bool:
    """Whether matplotlib draws all of a figure: it has plots alone, of glyphs known here."""
    kinds = {
        type(part).__name__ for part in figure.layout.references() if hasattr(part, "js_event_callbacks")
    }
    glyphs = {
        type(one.glyph).__name__
        for plot, *_ in laid_out(figure.layout, 0.0, 0.0)
        for one in plot.renderers
        if hasattr(one, "glyph") and one.visible
    }
    return bool(glyphs) and glyphs <= set(GLYPHS) and not kinds & {"Div", "DataTable", "Tabs", "PreText"}


def is_live() -> bool:
    """Whether somebody looks at this kernel's output in a page that can show widgets.

    A kernel that only executes a notebook (nbclient, nbconvert, papermill) has none; what it shows is stored.
    The environment variable ``LABKIT_LIVE`` (0 or 1) overrules that.
    """
    given = os.environ.get(VARIABLE, "")
    if given in ("0", "1"):
        return given == "1"
    return any(name.startswith(_PAGES) for name in os.environ)


def still_bundle(figures: Sequence[Drawn]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return one PNG of figures, one below the other, as a notebook stores it, and how to show it.

    That is its size, and that it is drawn on white: JupyterLab's marker for it, which the dark theme of
    `labkit lab` follows. Both are empty where there is no matplotlib.
    """
    from PIL import Image

    try:
        pictures = [draw_still(figure, "png", _SCALE) for figure in figures]
    except ImportError:
        return {}, {}
    if not pictures:
        return {}, {}
    picture = pictures[0] if len(pictures) == 1 else _stacked(pictures)
    with Image.open(io.BytesIO(picture)) as image:
        size = {
            name: round(pixels / _SCALE) for name, pixels in zip(("width", "height"), image.size, strict=True)
        }
    return {"image/png": base64.b64encode(picture).decode()}, {"image/png": size, "needs_background": "light"}


def _stacked(pictures: Sequence[bytes]) -> bytes:
    from PIL import Image

    parts = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in pictures]
    whole = Image.new("RGB", (max(p.width for p in parts), sum(p.height for p in parts)), "white")
    top = 0
    for part in parts:
        whole.paste(part, (0, top))
        top += part.height
    out = io.BytesIO()
    _with_palette(whole).save(out, "PNG")
    return out.getvalue()


def draw_still(figure: Drawn, kind: str = "svg", scale: float = 1.0, colors: int = _COLORS) -> bytes:
    """Draw a figure without a browser; a PNG has a palette of `colors`, or with 0 all that it needs."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Page

    plots = list(laid_out(figure.layout, 0.0, 0.0))
    width, height = _size(figure.layout)
    reading = TextLine(figure.reading, _READING_PX, "#333333", is_bold=False)
    words = [] if figure.has_words else wrap(figure.reading, max(30, int(width / 7.4)))
    under = reading.height_px * len(words) + (6 if words else 0)
    with rc_context(SETTINGS):
        whole = height + under
        page = Page(figsize=(width / _PER_INCH, whole / _PER_INCH), dpi=_PER_INCH)
        FigureCanvasAgg(page)
        columns: dict[tuple[str, float], list[object]] = {}
        for plot, x, y, w, h in plots:
            up = whole - y - h
            for line in reversed(below(plot, w)):
                draw_line(page, line, (x + 6) / width, (up + line.height_px / 2) / whole)
                up += line.height_px
            box = (x / width, up / whole, w / width, (whole - y - up) / whole)
            axes, _ = draw_plot(page, plot, box, Sheet())
            _fit(page, axes, box)
            columns.setdefault((plot.x_range.id, x), []).append(axes)
        for stack in columns.values():
            _align(stack)
        for i, text in enumerate(words):
            middle = under - 4 - reading.height_px * (i + 0.5)
            draw_line(page, replace(reading, text=text), 6 / width, middle / whole)
        return written(page, figure, kind, _PER_INCH * scale, colors)


def written(page: Any, figure: Drawn, kind: str, dpi: float, colors: int = 0) -> bytes:
    """Return a drawn page as a file with its description inside, the same bytes each time."""
    if kind == "png":
        page.set_dpi(dpi)
        page.canvas.draw()
        return described(np.asarray(page.canvas.buffer_rgba()), figure, colors, (dpi, dpi))
    out = io.BytesIO()
    dates = {"svg": "Date", "pdf": "CreationDate"}
    page.savefig(out, format=kind, dpi=dpi, metadata={"Title": figure.reading, dates[kind]: None})
    made = out.getvalue()
    return _described(made.decode(), figure).encode() if kind == "svg" else made


def _described(svg: str, figure: Drawn) -> str:
    """Return an SVG that a screen reader reads: a title and a description."""
    begin, rest = svg.split("<svg ", 1)
    tag, rest = rest.split(">", 1)
    words = f"<title>{escape(figure.reading)}</title>\n <desc>{escape(figure.alt)}</desc>"
    return f'{begin}<svg role="img" {tag}>\n {words}{rest}'


def described(
    picture: bytes | NDArray[np.uint8],
    figure: Drawn,
    colors: int = 0,
    dpi: tuple[float, float] | None = None,
) -> bytes:
    """Return a PNG, or pixels, as a PNG with a title and a description, as its standard names them.

    With a palette of `colors` it is a third of the size, and has no `dpi`.
    """
    from PIL import Image, PngImagePlugin

    words = PngImagePlugin.PngInfo()
    words.add_itxt("Title", figure.reading)
    words.add_itxt("Description", figure.alt)
    out = io.BytesIO()
    with Image.open(io.BytesIO(picture)) if isinstance(picture, bytes) else Image.fromarray(picture) as image:
        if colors:
            _with_palette(image.convert("RGB"), colors).save(out, "PNG", pnginfo=words)
        else:
            image.save(out, "PNG", pnginfo=words, optimize=True, dpi=dpi)
    return out.getvalue()


def _with_palette(picture: Image, colors: int = _COLORS) -> Image:
    """Return a picture with at most `colors` colors; a median cut would take five times as long."""
    found = picture.quantize(colors, _OCTREE, dither=_NO_DITHER)
    shades = np.array(found.getpalette(), dtype=np.uint8).reshape(-1, 3)
    shades[(shades >= _WHITE).all(axis=1)] = 255  # an octree's cells are blunt
    found.putpalette(shades.tobytes())
    return found


def laid_out(layout: Plot, x: float, y: float) -> Iterator[tuple[Plot, float, float, float, float]]:
    """Yield every plot of a layout with its place and size in pixels, the origin at the top left."""
    kind = type(layout).__name__
    if hasattr(layout, "renderers"):
        yield layout, x, y, *_plot_size(layout)
    elif kind == "GridPlot" or kind == "GridBox":
        cells = [(cell[0], cell[1], cell[2]) for cell in layout.children if cell[0] is not None]
        rows = {r: max(_size(c)[1] for c, row, _ in cells if row == r) for r in {r for _, r, _ in cells}}
        columns = {k: max(_size(c)[0] for c, _, col in cells if col == k) for k in {k for _, _, k in cells}}
        for cell, row, column in cells:
            left = sum(w + _GAP_PX for k, w in columns.items() if k < column)
            top = sum(h + _GAP_PX for r, h in rows.items() if r < row)
            yield from laid_out(cell, x + left, y + top)
    elif hasattr(layout, "children"):
        for child in layout.children:
            yield from laid_out(child, x, y)
            w, h = _size(child)
            x, y = (x + w, y) if kind == "Row" else (x, y + h)


def _size(layout: Plot) -> tuple[float, float]:
    plots = list(laid_out(layout, 0.0, 0.0))
    wide = max((x + w for _, x, _, w, _ in plots), default=0.0)
    return wide, max((y + h for _, _, y, _, h in plots), default=0.0)


def _plot_size(plot: Plot) -> tuple[float, float]:
    """Return the size of a plot; where only its frame has one, with room for what stands around it."""
    if plot.frame_width is None or plot.frame_height is None:
        return float(plot.width or 600), float(plot.height or 400)
    legends = [thing for thing in plot.right if type(thing).__name__ == "Legend"]
    longest = max((len(str(item.label.value)) for one in legends for item in one.items), default=0)
    lines = len(list(titles((*plot.above, *plot.below))))
    left = _AXIS_PX if any(axis.visible for axis in plot.yaxis) else _GAP_PX
    right = _LETTER_PX * (longest + 7) if legends else 0.0
    return plot.frame_width + left + right, plot.frame_height + _AXIS_PX + 24.0 * lines


def draw_plot(
    page: MatplotlibFigure, plot: Plot, box: tuple[float, float, float, float], sheet: Sheet
) -> tuple[Axes, list[Plot]]:
    """Draw one plot with its frame in a box, given in shares of the page; return the legends left out."""
    axes = page.add_axes(box, facecolor=plot.background_fill_color or "white")
    x_factors, y_factors = (getattr(r, "factors", None) for r in (plot.x_range, plot.y_range))
    for name, scale in (("x", plot.x_scale), ("y", plot.y_scale)):
        if "Log" in type(scale).__name__:
            getattr(axes, f"set_{name}scale")("log")
    shown: dict[str, object] = {} if sheet.shown is None else sheet.shown
    legends = []
    for renderer in plot.renderers:
        glyph = getattr(renderer, "glyph", None)
        if glyph is not None and renderer.visible:
            columns = Columns(glyph, renderer.data_source, x_factors, y_factors, sheet.pt)
            shown[renderer.id] = draw_glyph(axes, glyph, columns)
    for name, span in (("x", plot.x_range), ("y", plot.y_range)):
        factors = getattr(span, "factors", None)
        if factors is not None:
            getattr(axes, f"set_{name}lim")(0, len(factors))
        elif getattr(span, "start", None) is not None and _is_number(span.start):
            getattr(axes, f"set_{name}lim")(span.start, span.end)
    _draw_axes(axes, plot, x_factors, y_factors, sheet)
    for side in ("center", "above", "below", "left", "right"):
        for thing in getattr(plot, side):
            if type(thing).__name__ == "Legend":
                legends.append((thing, side))
            else:
                _annotate(page, axes, thing, sheet)
    if sheet.shown is None:
        for legend, side in legends:
            _draw_legend(axes, legend, side, shown)
        draw_above(axes, plot)
    if getattr(plot, "match_aspect", False):
        axes.set_aspect("equal", adjustable="box")
    return axes, [legend for legend, _ in legends]


def _align(stack: Sequence[Axes]) -> None:
    """Let panels with one range, one below the other, begin and end at the same lines."""
    boxes = [axes.get_position() for axes in stack]
    left, right = max(box.x0 for box in boxes), min(box.x1 for box in boxes)
    if len(stack) > 1 and left < right:
        for axes, box in zip(stack, boxes, strict=True):
            axes.set_position((left, box.y0, right - left, box.height))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _draw_axes(axes: Axes, plot: Plot, x_factors: Any, y_factors: Any, sheet: Sheet) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    for spine in axes.spines.values():
        spine.set_color("#bbbbbb")
    axes.set_axisbelow(True)
    for name, theirs, factors in (("x", plot.xaxis, x_factors), ("y", plot.yaxis, y_factors)):
        mine = getattr(axes, f"{name}axis")
        mine.set_minor_locator(NullLocator())
        if not theirs or not any(axis.visible for axis in theirs):
            mine.set_visible(False)
            continue
        axis = theirs[0]
        axes.tick_params(axis=name, labelsize=12 * sheet.pt, color="#888888", labelcolor="#333333")
        if axis.axis_label:
            getattr(axes, f"set_{name}label")(axis.axis_label, fontsize=13 * sheet.pt, color="#333333")
        grids = plot.xgrid if name == "x" else plot.ygrid
        if any(grid.visible and grid.grid_line_color for grid in grids):
            axes.grid(True, axis=name, color="#e6e6e6", linewidth=0.8)
        ticks = getattr(axis.ticker, "ticks", None)
        if factors is not None:
            mine.set_major_locator(FixedLocator([i + 0.5 for i in range(len(factors))]))
            mine.set_major_formatter(
                FuncFormatter(lambda v, _, f=factors: f[int(v)] if 0 <= v < len(f) else "")
            )
            _slant(axes, name, axis)
            continue
        if ticks:
            low, high = sorted(getattr(axes, f"get_{name}lim")())
            mine.set_major_locator(FixedLocator([t for t in ticks if low <= t <= high] or list(ticks)))
        elif type(axis.ticker).__name__ == "BasicTicker":
            mine.set_major_locator(
                MaxNLocator(7, integer=getattr(axis.ticker, "min_interval", 0) == 1, steps=[1, 2, 5, 10])
            )
        write = _writer(axis.formatter)
        overrides = {float(k): v for k, v in axis.major_label_overrides.items() if _is_number(k)}
        mine.set_major_formatter(
            FuncFormatter(lambda v, _, write=write, known=overrides: str(known.get(v, write(v))))
        )
        _slant(axes, name, axis)


def _slant(axes: Axes, name: str, axis: Plot) -> None:
    """Turn the labels of ticks that are turned in the browser; each ends below its tick."""
    if axis.major_label_orientation in ("horizontal", 0):
        return
    axes.tick_params(axis=name, labelrotation=45)
    for label in axes.get_xticklabels() if name == "x" else ():
        label.set(horizontalalignment="right", rotation_mode="anchor")


def _writer(formatter: Plot) -> Callable[[float], str]:
    """Return the Python twin of a formatter that runs in the browser."""
    code = getattr(formatter, "code", None)
    if code == SI_JS:
        unit = str(formatter.args.get("unit", ""))
        return lambda value: si_text(value, unit)
    if code == COUNT_JS:
        return count_text
    if code == SHARE_JS:
        return share_text
    return lambda value: f"{value:,.6g}"


def _annotate(page: MatplotlibFigure, axes: Axes, thing: Plot, sheet: Sheet) -> None:
    kind = type(thing).__name__
    if kind == "ColorBar":
        _color_bar(page, axes, thing, sheet)
    elif kind == "Span":
        line = axes.axhline if thing.dimension == "width" else axes.axvline
        line(
            thing.location,
            color=thing.line_color or "#444444",
            linewidth=sheet.pt * (thing.line_width or 1),
            linestyle=":" if thing.line_dash else "-",
        )
    elif kind == "BoxAnnotation":
        look = {"color": thing.fill_color, "alpha": thing.fill_alpha, "linewidth": 0}
        if _is_number(thing.bottom) and _is_number(thing.top):
            axes.axhspan(thing.bottom, thing.top, **look)
        elif _is_number(thing.left) and _is_number(thing.right):
            axes.axvspan(thing.left, thing.right, zorder=3, **look)


def legend_of(legend: Plot, shown: dict[str, object]) -> tuple[list[Plot], list[str]]:
    """Return what a legend shows, and its labels."""
    handles: list[Plot] = []
    labels: list[str] = []
    for item in legend.items if legend.visible else ():
        drawn = [shown[r.id] for r in item.renderers if shown.get(r.id) is not None]
        label = getattr(item.label, "value", None) or getattr(item.label, "field", None) or str(item.label)
        if isinstance(item.label, dict):
            label = item.label.get("value", label)
        if drawn:
            handles.append(tuple(drawn[:2]) if len(drawn) > 1 else drawn[0])
            labels.append(str(label))
    return handles, labels


def _draw_legend(axes: Axes, legend: Plot, side: str, shown: dict[str, object]) -> None:
    handles, labels = legend_of(legend, shown)
    if not handles:
        return
    columns = len(labels) if legend.orientation == "horizontal" else 1
    if side == "center":
        where: dict[str, object] = {"loc": _PLACES.get(str(legend.location), "best")}
    else:
        where = dict(zip(("loc", "bbox_to_anchor"), _OUTSIDE[side], strict=True))
        if side == "below":  # under the axis and its name, whatever the frame's height
            from matplotlib.transforms import offset_copy

            where["bbox_transform"] = offset_copy(axes.transAxes, axes.figure, 0, -_NAMED_AXIS_PX / _PER_INCH)
        if side in ("above", "below"):
            columns = min(columns, max(1, int(110 / max(len(label) + 6 for label in labels))))
    columns = legend.ncols if isinstance(legend.ncols, int) and legend.ncols > 1 else columns
    made = axes.legend(
        handles,
        labels,
        fontsize=8.5,
        frameon=side == "center",
        framealpha=0.85,
        ncols=columns,
        borderaxespad=0.3,
        edgecolor="#dddddd",
        title=legend.title,
        **where,
    )
    made.set_zorder(5)


def _color_bar(page: MatplotlibFigure, axes: Axes, bar: Plot, sheet: Sheet) -> None:
    from matplotlib import cm, ticker
    from matplotlib import colors as palettes

    mapper = bar.color_mapper
    low, high = limits([0.0, 1.0], mapper)
    norm = (
        palettes.LogNorm(low, high)
        if "Log" in type(mapper).__name__ and low > 0
        else palettes.Normalize(low, high)
    )
    colors = cm.ScalarMappable(norm, palettes.ListedColormap(list(mapper.palette)))
    made = page.colorbar(colors, cax=axes.inset_axes((1.03, 0.0, 0.03, 1.0)))
    write = _writer(bar.formatter)
    made.ax.yaxis.set_minor_locator(ticker.NullLocator())
    made.ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: write(value)))
    made.ax.tick_params(labelsize=8.5 / pt * sheet.pt, color="#888888", labelcolor="#333333")
    made.outline.set_edgecolor("#bbbbbb")
    if bar.title:
        made.ax.set_title(bar.title, fontsize=8.5 / pt * sheet.pt, color="#333333")


def _fit(page: Any, axes: Axes, box: tuple[float, float, float, float]) -> None:
    """Shrink the frame until its labels, title and legend lie inside the plot's own box."""
    left, bottom, width, height = box
    wide, high = page.bbox.width, page.bbox.height
    edge_x, edge_y = 4 / wide, 4 / high
    renderer = page.canvas.get_renderer()
    for _ in range(3):
        tight, frame = axes.get_tightbbox(renderer), axes.get_position()
        west, south = (max(0.0, left + edge_x - tight.x0 / wide), max(0.0, bottom + edge_y - tight.y0 / high))
        east = max(0.0, tight.x1 / wide - (left + width - edge_x))
        north = max(0.0, tight.y1 / high - (bottom + height - edge_y))
        if max(west, south, east, north) < 1e-9:
            return
        w, h = max(0.05, frame.width - west - east), max(0.05, frame.height - south - north)
        axes.set_position((frame.x0 + west, frame.y0 + south, w, h))
