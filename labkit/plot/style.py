"""The common style of figures: color-blind safe colors and dashes, ticks, units."""

from __future__ import annotations

import base64
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from bokeh.layouts import gridplot
from bokeh.models import (
    BasicTicker,
    CustomAction,
    CustomJS,
    CustomJSTickFormatter,
    FixedTicker,
    HoverTool,
    Legend,
    SaveTool,
    Title,
    Toolbar,
)
from bokeh.palettes import Blues256

from labkit.errors import SuggestsNames
from labkit.text.html import MATCH_COLORS, SI_UNITS

__all__ = [
    "COLORS",
    "COUNT_JS",
    "DASHES",
    "FONT",
    "HATCHES",
    "HEAT",
    "LETTER_PX",
    "MARKERS",
    "MATCH_COLORS",
    "PERCENT",
    "SHARE_JS",
    "SI_JS",
    "TOOLS",
    "Drawn",
    "count_axis",
    "count_text",
    "dress",
    "grid_of",
    "heading",
    "ink_on",
    "rank_axis",
    "rank_ticks",
    "share_text",
    "share_ticks",
    "si_text",
    "style_axes",
    "time_axis",
    "unbroken",
    "value_axis",
    "whole_ticker",
    "wrap",
]


FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
#: the mean width of its letters in labels
LETTER_PX = 6.4

#: Okabe and Ito's palette, in an order whose neighbors differ most
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F3C8D", "#5F5F5F")
DASHES = ("solid", "dashed", "dotdash", "dotted", "dashdot", "solid", "dashed", "dotdash")
#: hatches, dashes and markers that distinguish lines, points and bars without color
MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "plus", "star", "hex")
HATCHES = (
    "blank",
    "right_diagonal_line",
    "dot",
    "horizontal_line",
    "left_diagonal_line",
    "cross",
    "vertical_line",
)
#: amounts, from little to much: nothing is the palest, and still to be seen on white
HEAT = Blues256[216::-1]
#: a share, for Bokeh's tooltips
PERCENT = "0.[000] %"

#: writes 0.000012 as "12 µs"; counts (unit "") as 1, 10, 1k, 1M
SI_JS = """
const prefixes = ["p", "n", "µ", "m", "", "k", "M", "G", "T", "P"];
if (tick == 0) return "0" + (unit ? " " + unit : "");
let power = Math.floor(Math.log10(Math.abs(tick)) / 3 + 1e-9);
power = Math.max(unit ? -4 : 0, Math.min(5, power));
const scaled = Number((tick / Math.pow(1000, power)).toPrecision(3));
return scaled + ((unit || power) ? " " : "") + prefixes[power + 4] + unit;
"""

#: writes counts in full, large powers of two as such
COUNT_JS = """
const value = Number(tick.toPrecision(9)), power = Math.log2(value);
if (value < 1e5 || power != Math.round(power)) return value.toLocaleString("en");
return "2" + String(power).split("").map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("");
"""

#: writes shares with as many digits as they need: 0.0002 as "0.02 %"
SHARE_JS = 'return Number((100 * tick).toPrecision(3)) + " %"'


def si_text(tick: float, unit: str) -> str:
    """Return what `SI_JS` writes: the twin for pictures that no browser draws.

    Examples
    --------
    >>> si_text(0.000012, "s"), si_text(2.5e6, "")
    ('12 µs', '2.5 M')
    """
    if tick == 0:
        return f"0 {unit}".strip()
    power = math.floor(math.log10(abs(tick)) / 3 + 1e-9)
    power = max(-4 if unit else 0, min(5, power))
    prefix = ("p", "n", "µ", "m", "", "k", "M", "G", "T", "P")[power + 4]
    value = float(f"{tick / 1000.0**power:.3g}")
    written = f"{value:.6f}".rstrip("0").rstrip(".") if abs(value) >= 1e-6 else f"{value:g}"
    return f"{written} {prefix}{unit}".strip()


def count_text(tick: float) -> str:
    """Return what `COUNT_JS` writes.

    Examples
    --------
    >>> count_text(12000), count_text(2.0**20)
    ('12,000', '2²⁰')
    """
    value = float(f"{tick:.9g}")
    power = math.log2(value) if value > 0 else 0.0
    if value < 1e5 or power != round(power):
        return f"{value:,.10g}"
    return "2" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(round(power)))


def share_text(tick: float) -> str:
    """Return what `SHARE_JS` writes.

    Examples
    --------
    >>> share_text(0.0002), share_text(0.125), share_text(-0.5)
    ('0.02 %', '12.5 %', '-50 %')
    """
    return f"{float(f'{100 * tick:.3g}'):.10g} %"


def share_ticks() -> CustomJSTickFormatter:
    """Return what writes the ticks of an axis of shares, or of a bar of their colors."""
    return CustomJSTickFormatter(code=SHARE_JS)


#: the space between a number and what follows it: a unit, or what is counted
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=[%\w])")


def unbroken(text: str) -> str:
    r"""Keep numbers with their units, and with what they count, by spaces at which no line is broken.

    Examples
    --------
    >>> unbroken("found 1.36 s").split(" ")
    ['found', '1.36\xa0s']
    """
    return _BEFORE_UNIT.sub("\u00a0", text).replace(" = ", "\u00a0=\u00a0")


def wrap(text: str, width: int) -> list[str]:
    """Break a sentence into lines of at most `width` characters, never between a number and its unit.

    Nor at a hyphen: lines joined by spaces are the sentence again.

    Examples
    --------
    >>> wrap("found 1.36 s", 10), wrap("they met 9 rules", 10), wrap("up to p = 8", 9), wrap("a ping-pong", 9)
    (['found', '1.36 s'], ['they met', '9 rules'], ['up to', 'p = 8'], ['a', 'ping-pong'])
    """
    whole = textwrap.wrap(unbroken(text), width, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in whole] or [""]


def ink_on(color: str) -> str:
    """Return the color of letters that can be read on a color: dark or white.

    Examples
    --------
    >>> ink_on("#08306b"), ink_on("#deebf7"), ink_on("white")
    ('white', '#222222', '#222222')
    """
    if not color.startswith("#"):
        return "#222222"
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 140 else "#222222"


def heading(text: str, points: int = 15, color: str = "#222222") -> Title:
    """Return a figure's name, or with fewer points that of a small one."""
    return Title(text=text, text_font=FONT, text_font_size=f"{points}px", text_color=color)


def rank_axis(axis: Any, values: npt.ArrayLike, room: int = 9) -> None:
    """Put an axis' ticks at the measured values; large powers of two are written as such."""
    axis.ticker = rank_ticks(values, room)
    axis.formatter = CustomJSTickFormatter(code=COUNT_JS)


def whole_ticker(room: int = 6) -> BasicTicker:
    """Return ticks at whole numbers only, about as many as there is room for."""
    return BasicTicker(min_interval=1, num_minor_ticks=0, desired_num_ticks=room)


def count_axis(axis: Any, label: str, most: int) -> None:
    """Name a linear axis of whole things (ranks) from 0 to `most`, with ticks at whole numbers only."""
    axis.ticker = BasicTicker(
        base=2 if most >= 16 else 10,
        mantissas=[1] if most >= 16 else [1, 2, 5],
        min_interval=1,
        num_minor_ticks=0,
    )
    axis.formatter = CustomJSTickFormatter(code=COUNT_JS)
    axis.axis_label = label


def rank_ticks(values: npt.ArrayLike, room: int = 9) -> FixedTicker:
    """Return ticks at the measured values themselves, thinned to what fits."""
    distinct = np.unique(np.asarray(values, dtype=float))
    step = max(1, math.ceil(distinct.size / room))
    kept = distinct[::-1][::step][::-1]
    return FixedTicker(ticks=[float(v) for v in kept], minor_ticks=[])


def value_axis(axis: Any, unit: str, low: float, high: float, room: int = 9) -> None:
    """Give a logarithmic axis of values SI prefixes, and about six ticks over its span, at most `room`."""
    decades = math.log10(high / low)
    mantissas: tuple[float, ...] = (1.0, 2.0, 5.0)
    dense = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
    if decades < 0.8 and sum(low <= m * 10.0**k <= high for m in dense for k in range(-18, 19)) <= room:
        mantissas = dense
    elif decades > 4:
        mantissas = (1.0,)
    elif decades > 2.2:
        mantissas = (1.0, 3.0)
    bottom, top = math.floor(math.log10(low)) - 3, math.ceil(math.log10(high)) + 3  # room to move the view
    step = max(1, math.ceil(decades / 8))
    ticks = [float(f"{m}e{k}") for k in range(bottom - bottom % step, top + 1, step) for m in mantissas]
    axis.ticker = FixedTicker(ticks=ticks, minor_ticks=[])
    prefixed = unit if unit in SI_UNITS else ""
    axis.formatter = CustomJSTickFormatter(code=SI_JS, args={"unit": prefixed})


def time_axis(axis: Any, is_simulated: bool = True) -> None:
    """Give a linear axis of time SI prefixes and its name."""
    axis.formatter = CustomJSTickFormatter(code=SI_JS, args={"unit": "s"})
    axis.axis_label = "simulated time" if is_simulated else "time"


def style_axes(figures: Sequence[Any]) -> None:
    """Set fonts and a quiet grid."""
    for fig in figures:
        fig.background_fill_color = "white"
        fig.border_fill_color = "white"
        fig.outline_line_color = "#bbbbbb"
        fig.grid.grid_line_color = "#e6e6e6"
        fig.axis.axis_line_color = "#888888"
        fig.axis.major_tick_line_color = "#888888"
        fig.axis.axis_label_text_font_style = "normal"
        fig.axis.axis_label_text_font = fig.axis.major_label_text_font = FONT
        fig.axis.axis_label_text_font_size = "13px"
        fig.axis.major_label_text_font_size = "12px"
        fig.title.text_font = FONT
        if fig.toolbar is not None:
            fig.toolbar.logo = None
            fig.toolbar.autohide = True
        fig.axis.minor_tick_line_color = None
        for panel in (*fig.above, *fig.below, *fig.left, *fig.right):
            if isinstance(panel, Legend):
                panel.background_fill_color = None  # or it covers a part of the frame


# A figure: the layout, the caption, and the alternative text.


@dataclass(repr=False)
class Drawn(SuggestsNames):
    """A Bokeh layout, and what it says as text: the attributes of `labkit.plot.figure.Figure`."""

    layout: Any
    reading: str
    alt: str
    has_words: bool = False

    def words(self) -> dict[str, str]:
        """Return what a file of it says: reading ("" where the picture holds it), alt, title, file name.

        Returns
        -------
        dict of str to str
            By the names that the page's script knows.
        """
        reading = "" if self.has_words else self.reading
        return {"reading": reading, "alt": self.alt, "title": self.reading, "name": self.file_name()}

    def file_name(self) -> str:
        """Return a name for its files, made of the beginning of the reading.

        Returns
        -------
        str
            Of letters, digits and hyphens, without an ending.
        """
        words = re.findall(r"[a-z0-9]+", self.reading.lower())[:6]
        return "-".join(words)[:48] or "labkit"


# The toolbar that every figure has: move, zoom, reset, and the picture as PNG or SVG.


#: for `bokeh.plotting.figure`; `dress` replaces the last one
TOOLS = "pan,wheel_zoom,box_zoom,reset,save"

_SAVE = """
// Kernels number their models alike: the picture that this button belongs to is that of its document.
const views = Bokeh.index.roots.filter((one) => one.model.id == root)
const view = views.find((one) => one.model.document === cb_obj.document) ?? views[0]
if (view == null) return
if (globalThis.labkitDownload) { globalThis.labkitDownload(view, kind, words); return }
const layer = view.export(kind)
const link = document.createElement("a")
link.href = kind == "png" ? layer.canvas.toDataURL("image/png")
  : "data:image/svg+xml;charset=utf-8," + encodeURIComponent(layer.ctx.get_serialized_svg(true))
link.download = `${words.name}.${kind}`
link.click()
"""


def grid_of(small: Sequence[object], columns: int | None = None) -> Any:
    """Lay small figures out in rows of `columns` (default: one row) with one toolbar for all."""
    quiet = {"logo": None, "autohide": True, "active_drag": None, "active_inspect": "auto"}
    return gridplot(
        list(small),
        ncols=columns or len(small),
        toolbar_location="right",
        merge_tools=True,
        toolbar_options=quiet,
    )


def dress(layout: Any, words: dict[str, str]) -> None:
    """Replace the save tool of a layout's toolbars by one for PNG and one for SVG, descriptions included."""
    parts = list(layout.references())
    for toolbar in (one for one in parts if isinstance(one, Toolbar)):
        saves = any(isinstance(tool, SaveTool) for tool in toolbar.tools)
        kept = [tool for tool in toolbar.tools if not isinstance(tool, SaveTool)]
        if saves:
            kept += [_action(kind, str(layout.id), words) for kind in ("png", "svg")]
            toolbar.tools = kept
        toolbar.logo = None
        toolbar.autohide = True
    for hover in (one for one in parts if isinstance(one, HoverTool)):
        hover.visible = False  # always on: its button would only take room


def _action(kind: str, root: str, words: dict[str, str]) -> CustomAction:
    callback = CustomJS(args={"root": root, "kind": kind, "words": words}, code=_SAVE)
    return CustomAction(description=f"Save as {kind.upper()}", icon=_icon(kind.upper()), callback=callback)


def _icon(text: str) -> str:
    """A button's picture: a label over an arrow down."""
    drawn = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><g fill="none" stroke="#5f5f5f" '
        'stroke-width="1.8"><path d="M12 1v9M8 7l4 4 4-4"/></g><text x="12" y="22" font-family="sans-serif" '
        f'font-size="9.5" font-weight="bold" text-anchor="middle" fill="#5f5f5f">{text}</text></svg>'
    )
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn.encode()).decode()}"
