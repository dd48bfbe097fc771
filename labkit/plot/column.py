"""Figures at the width of a column of a paper: letters of 7 to 9 points, nothing cut, nothing overlapping.

The panels of a layout are arranged again: as many side by side as the width has room for. Frames keep their
proportions as far as they stay readable; titles are broken to the width, legends go below, ticks whose labels
would overlap are left out, and the height is what all that takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Page
from matplotlib.font_manager import FontProperties
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter
from matplotlib.transforms import Bbox

from labkit.plot.glyphs import Axes, Plot
from labkit.plot.glyphs import Drawn as Handle
from labkit.plot.still import (
    SETTINGS,
    Sheet,
    TextLine,
    draw_line,
    draw_plot,
    laid_out,
    legend_of,
    titles,
    written,
)
from labkit.plot.style import unbroken

if TYPE_CHECKING:
    from labkit.plot.style import Drawn

__all__ = ["column_page", "draw_column"]

#: points for each pixel of the layout: labels of ticks, 12 pixels on the screen, have 7.4 points
_PT = 0.62
_DOTS_PER_INCH = 300
#: points of the smallest letters, and of the room between two texts of a legend, and around a plot
_SMALLEST, _EDGE, _GAP = 6.2, 3.0, 6.0
#: pixels of the layout that a panel needs to stand next to another, that an axis takes, and that a line takes
_PANEL_PX, _AXIS_PX, _LINE_PX = 185.0, 64.0, 15.0
#: of a title, at most, and of a legend
_TITLE_PX, _LEGEND_PX = 13.0, 11.4
#: height of a frame: at least this share of its width, unless the screen's is flatter
_FLATTEST = 0.55
#: height of a machine or table, at most, as a share of its width
_HIGHEST = 0.8


@dataclass
class _Panel:
    """A plot, its place in its row, and, once it is drawn, what surrounds its frame, in pixels."""

    plot: Plot
    left: float
    width: float
    axes: Axes = None
    west: float = 0.0
    east: float = 0.0
    above: float = 0.0
    under: float = 0.0
    frame: float = 0.0
    shape: float = 1.0
    is_stretched: bool = False
    top: list[TextLine] = field(default_factory=list)
    end: list[TextLine] = field(default_factory=list)
    legends: list[tuple[list[Handle], list[str], str | None]] = field(default_factory=list)

    @property
    def frame_width(self) -> float:
        """What the frame gets of the width."""
        return max(30.0, self.width - self.west - self.east)

    @property
    def usual(self) -> tuple[float, float]:
        """Width and height of the frame on the screen."""
        plot = self.plot
        if plot.frame_width and plot.frame_height:
            return float(plot.frame_width), float(plot.frame_height)
        axes = [_AXIS_PX * any(one.visible for one in side) for side in (plot.yaxis, plot.xaxis)]
        lines = len(list(titles((plot.title, *plot.above, *plot.below))))
        wide, high = float(plot.width or 600), float(plot.height or 400)
        return max(30.0, wide - axes[0] - 12), max(30.0, high - 1.5 * _LINE_PX * lines - 0.6 * axes[1])

    @property
    def is_drawing(self) -> bool:
        """Whether it has no axes: a machine, a table."""
        return not any(one.visible for one in (*self.plot.xaxis, *self.plot.yaxis))


def draw_column(figure: Drawn, kind: str, inches: float) -> bytes:
    """Draw a figure for a paper, `inches` wide; its sentence is left to the paper's caption."""
    page = column_page(figure.layout, inches)
    with rc_context(SETTINGS):
        return written(page, figure, kind, _DOTS_PER_INCH)


def column_page(layout: Plot, inches: float) -> Page:
    """Return matplotlib's figure of a layout."""
    with rc_context(SETTINGS):
        page = Page(figsize=(inches, inches), dpi=72 / _PT)  # a pixel of the page is one of the layout
        _Column(page, inches * 72 / _PT).draw(layout)
    return page


class _Column:
    """A page of a given width, in pixels of the layout, and what is drawn on it."""

    def __init__(self, page: Page, room: float) -> None:
        self.page, self.room = page, room
        self.renderer = FigureCanvasAgg(page).get_renderer()

    def draw(self, layout: Plot) -> None:
        """Draw the panels of a layout, and give the page the height that they take."""
        rows = self._rows(layout)
        shown: dict[str, object] = {}
        for panel in (one for row in rows for one in row):
            panel.west, panel.east = _AXIS_PX, _GAP
            panel.axes, legends = draw_plot(self.page, panel.plot, (0.1, 0.1, 0.8, 0.8), Sheet(_PT, shown))
            panel.legends = [(*legend_of(one, shown), one.title) for one in legends]
            self._prepare(panel)
            for _ in range(3):
                self._measure(panel)
        for _ in range(2):
            self._align(rows)
            for row in rows:
                same = max((self._height(one) for one in row if not one.is_drawing), default=None)
                for one in row:
                    self._measure(one, same, keep=True)
        self._align(rows)
        self._put(rows)

    def _rows(self, layout: Plot) -> list[list[_Panel]]:
        """Return the panels of a layout, downwards, as many side by side as there is room for."""
        found: dict[float, list[tuple[float, Plot, float]]] = {}
        for plot, x, y, width, _ in laid_out(layout, 0.0, 0.0):
            found.setdefault(y, []).append((x, plot, width))
        rows = [[one[1:] for one in sorted(found[y], key=lambda one: one[0])] for y in sorted(found)]
        every = [one for row in rows for one in row]
        tables = [_Panel(plot, 0, width).is_drawing for plot, width in every]
        needed = max(
            (width for (_, width), is_table in zip(every, tables, strict=True) if is_table), default=0.0
        )
        most = max(1, int(self.room / max(_PANEL_PX, min(needed, self.room))))
        columns = max(map(len, rows))
        if columns > most:
            is_even = len({round(width) for _, width in every}) == 1
            parts = [every] if is_even else rows
            columns = most
            rows = [part[i : i + most] for part in parts for i in range(0, len(part), most)]
        placed = []
        for row in rows:
            share = self.room / (columns if len(row) > 1 or row[0][1] < 0.6 * self.room else 1)
            placed.append([_Panel(plot, i * share, share) for i, (plot, _) in enumerate(row)])
        return placed

    def _prepare(self, panel: _Panel) -> None:
        """Let what a frame shows fit its new size."""
        axes, plot = panel.axes, panel.plot
        panel.top = self._lines(reversed(list(titles((plot.title, *plot.above)))), panel.width)
        panel.end = self._lines(titles(plot.below), panel.width)
        names = getattr(plot.y_range, "factors", None)
        if names is not None and axes.yaxis.get_visible():
            room = 0.36 * panel.width
            broken = {name: "\n".join(self._broken(name, 12 * _PT, "normal", room)) for name in names}
            known = [broken[name] for name in names]
            axes.yaxis.set_major_formatter(
                FuncFormatter(lambda v, _: known[int(v)] if 0 <= v < len(known) else "")
            )
        if panel.is_drawing:
            box = axes.dataLim
            x, y = plot.x_range, plot.y_range
            usual = panel.usual
            aspect = (usual[1] / abs(y.end - y.start)) / (usual[0] / abs(x.end - x.start))
            wide, high = max(box.width, 1e-9), max(box.height, 1e-9)
            axes.set(xlim=(box.x0, box.x0 + wide)[:: _way(x)], ylim=(box.y0, box.y0 + high)[:: _way(y)])
            panel.shape, panel.is_stretched = aspect * high / wide, abs(aspect - 1) > 0.05
            smaller = min(1.0, panel.width * 0.9 / (usual[0] * wide / abs(x.end - x.start)))
            for spine in axes.spines.values():
                spine.set_visible(False)
            for drawn in axes.collections:
                drawn.set_clip_on(False)
                if hasattr(drawn, "get_sizes"):
                    drawn.set_sizes(drawn.get_sizes() * max(0.4, smaller) ** 2)
            for text in axes.texts:
                text.set_annotation_clip(False)
                across, up = text.get_position()
                text.set_position((across * max(0.5, smaller), up * max(0.5, smaller)))

    def _measure(self, panel: _Panel, same: float | None = None, keep: bool = False) -> None:
        """Find out what labels take around a frame; with `keep` the frame begins and ends where it does."""
        axes = panel.axes
        panel.frame = same if same is not None and not panel.is_drawing else self._height(panel)
        place = (
            (panel.left + panel.west) / self.room,
            0.3,
            panel.frame_width / self.room,
            panel.frame / self.room,
        )
        axes.set_position(place)
        self._thin(panel)
        frame, tight = axes.get_window_extent(self.renderer), axes.get_tightbbox(self.renderer)
        west, east = max(0.0, frame.x0 - tight.x0) + _EDGE, max(0.0, tight.x1 - frame.x1) + _EDGE
        if keep:
            west, east = max(west, panel.west), max(east, panel.east)
        elif panel.is_drawing and not panel.is_stretched:
            spare = max(0.0, panel.width - west - east - _HIGHEST * panel.width / panel.shape) / 2
            west, east = west + spare, east + spare
        panel.west, panel.east = west, east
        panel.above = max(0.0, tight.y1 - frame.y1) + _EDGE
        panel.under = max(0.0, frame.y0 - tight.y0) + _EDGE

    def _height(self, panel: _Panel) -> float:
        """Return the height of a frame: the screen's proportions, as far as they stay readable."""
        wide, (usual, high) = panel.frame_width, panel.usual
        if panel.is_drawing:
            return float(panel.shape * wide)
        names = getattr(panel.plot.y_range, "factors", None)
        if names is not None:
            lines = [
                panel.axes.yaxis.get_major_formatter()(i + 0.5).count("\n") + 1 for i in range(len(names))
            ]
            return float(max((_LINE_PX * max(lines) + 3) * len(names), high * min(1.0, wide / usual)))
        return min(high, max(high * wide / usual, _FLATTEST * wide))

    def _align(self, rows: Sequence[Sequence[_Panel]]) -> None:
        """Let frames of one column begin and end at the same lines, and share the width."""
        columns = max(map(len, rows))
        if columns == 1:
            west, east = (max(getattr(row[0], side) for row in rows) for side in ("west", "east"))
            for row in rows:
                if not row[0].is_drawing:
                    row[0].west, row[0].east = west, east
            return
        stacks = [
            [row[i] for row in rows if len(row) > max(i, 0) and row[0].width < self.room]
            for i in range(columns)
        ]
        sides = [(max(one.west for one in stack), max(one.east for one in stack)) for stack in stacks]
        rest = self.room - sum(west + east for west, east in sides) - _GAP * (columns - 1)
        usual = [max(one.usual[0] for one in stack) for stack in stacks]
        left = 0.0
        for stack, (west, east), wide in zip(stacks, sides, usual, strict=True):
            width = west + east + rest * wide / sum(usual)
            for one in stack:
                one.left, one.width, one.west, one.east = left, width, west, east
            left += width + _GAP

    def _thin(self, panel: _Panel) -> None:
        """Leave out labels of ticks that overlap others; names along a horizontal axis are turned instead."""
        for axes in (panel.axes, *panel.axes.child_axes):
            for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
                if not axis.get_visible():
                    continue
                low, high = sorted(getattr(axes, f"get_{name}lim")())
                places = [float(one) for one in axis.get_majorticklocs() if low <= one <= high]
                names = name == "x" and getattr(panel.plot.x_range, "factors", None)
                for step in range(1, len(places) + 1):
                    axis.set_major_locator(FixedLocator(places[::-1][::step][::-1]))
                    if _are_apart(
                        [one.get_window_extent(self.renderer) for one in _labels(axis)], name == "x"
                    ):
                        break
                    if names and axes is panel.axes:
                        _turn(axes)
                        break

    def _broken(self, text: str, points: float, weight: str, room: float) -> list[str]:
        """Break a text into lines that are not wider than `room`."""
        lines = [""]
        for word in unbroken(text.replace("\n", " ")).split(" "):
            longer = f"{lines[-1]} {word}".strip()
            if self._wide(longer, points, weight) <= room or not lines[-1]:
                lines[-1] = longer
            else:
                lines.append(word)
        return [line.replace("\u00a0", " ") for line in lines]

    def _wide(self, text: str, points: float, weight: str) -> float:
        font = FontProperties(family="DejaVu Sans", size=points, weight=weight)
        return float(self.renderer.get_text_width_height_descent(text, font, ismath=False)[0])

    def _lines(self, lines: Iterable[TextLine], room: float) -> list[TextLine]:
        """Return lines of text, those of one look joined and broken again to the width."""
        found = []
        for _, same in groupby(lines, key=lambda one: (one.size_px, one.color, one.is_bold)):
            first, *others = same
            size = min(first.size_px, _TITLE_PX)
            text = " ".join([first.text, *(one.text for one in others)])
            for part in self._broken(text, size * _PT, first.weight, room - 2 * _EDGE):
                found.append(TextLine(part, size, first.color, first.is_bold))
        return found

    def _put(self, rows: Sequence[Sequence[_Panel]]) -> None:
        """Give every panel its place, and the page the height that they take."""
        down, frames, legends = 0.0, [], []
        lines: list[tuple[TextLine, float, float]] = []
        for row in rows:
            down += _EDGE
            titled = max(sum(one.height_px for one in panel.top) for panel in row)
            for panel in row:
                at = down + titled - sum(one.height_px for one in panel.top)
                longest = max(
                    (self._wide(one.text, one.size_px * _PT, one.weight) for one in panel.top), default=0
                )
                left = panel.west if panel.west + longest <= panel.width else _EDGE
                lines += _placed(panel.top, panel.left + left, at)
            top = down + titled + max(panel.above for panel in row)
            bottom = top + max(panel.frame + panel.under for panel in row)
            frames += [(panel, top) for panel in row]
            known = {tuple(one[1]): one for panel in row for one in panel.legends if one[0]}
            shared = len(known) == 1 and len(row) > 1
            places = (
                [(*next(iter(known.values())), 0.0, self.room)]
                if shared
                else [(*one, panel.left, panel.width) for panel in row for one in panel.legends if one[0]]
            )
            ends = dict.fromkeys([0.0, *(panel.left for panel in row)], bottom)
            for handles, labels, title, left, width in places:
                made, height = self._legend(handles, labels, title, width)
                legends.append((made, left + _EDGE, ends[left]))
                ends[left] += height
            bottom = max(ends.values())
            for panel in row:
                lines += _placed(panel.end, panel.left + _EDGE, bottom)
            down = bottom + max(sum(one.height_px for one in panel.end) for panel in row) + _EDGE
        self.page.set_size_inches(self.room * _PT / 72, down * _PT / 72)
        for panel, top in frames:
            left, low = (panel.left + panel.west) / self.room, 1 - (top + panel.frame) / down
            panel.axes.set_position((left, low, panel.frame_width / self.room, panel.frame / down))
        for line, left, top in lines:
            draw_line(self.page, line, left / self.room, 1 - (top + line.height_px / 2) / down, _PT)
        for made, left, top in legends:
            made.set_bbox_to_anchor((left / self.room, 1 - top / down), self.page.transFigure)
        for panel, _ in frames:
            self._part(panel)

    def _legend(
        self, handles: list[Handle], labels: list[str], title: str | None, width: float
    ) -> tuple[Legend, float]:
        """Draw a legend in as many columns as fit a width; return it with its height."""
        for columns in range(len(labels), 0, -1):
            made = self.page.legend(
                handles,
                labels,
                fontsize=_LEGEND_PX * _PT,
                title_fontsize=_LEGEND_PX * _PT,
                title=title,
                frameon=False,
                ncols=columns,
                loc="upper left",
                borderaxespad=0.0,
                borderpad=0.2,
                columnspacing=1.2,
                handlelength=1.8,
                labelspacing=0.35,
            )
            box = made.get_window_extent(self.renderer)
            if columns == 1 or box.width <= width - 2 * _EDGE:
                break
            made.remove()
        return made, float(box.height) + _EDGE

    def _part(self, panel: _Panel) -> None:
        """Draw the texts of a frame inside it, and none over another."""
        frame = panel.axes.get_window_extent(self.renderer)
        taken: list[Bbox] = []
        for text in [one for one in panel.axes.texts if one.get_text().strip()]:
            text.set_fontsize(max(_SMALLEST, text.get_fontsize()))
            box = text.get_window_extent(self.renderer)
            if not panel.is_drawing:
                x, y = text.get_position()
                across = max(0.0, frame.x0 + 1 - box.x0) - max(0.0, box.x1 + 1 - frame.x1)
                up = max(0.0, frame.y0 + 1 - box.y0) - max(0.0, box.y1 + 1 - frame.y1)
                text.set_position((x + across * _PT, y + up * _PT))
                box = text.get_window_extent(self.renderer)
            fits = panel.is_drawing or box.width <= frame.width
            text.set_visible(fits and not any(box.overlaps(other) for other in taken))
            if text.get_visible():
                taken.append(box)


def _placed(lines: Sequence[TextLine], left: float, top: float) -> Iterable[tuple[TextLine, float, float]]:
    """Yield lines of text with their places, downwards."""
    for line in lines:
        yield line, left, top
        top += line.height_px


def _way(span: Plot) -> int:
    """Return 1 for a range that begins with its least value, or -1."""
    return 1 if span.start <= span.end else -1


def _labels(axis: Axis) -> list[Text]:
    return [one for one in axis.get_ticklabels() if one.get_text()]


def _are_apart(boxes: Sequence[Bbox], is_across: bool) -> bool:
    spans = sorted((box.x0, box.x1 + 3.0) if is_across else (box.y0, box.y1) for box in boxes)
    return all(one[1] <= other[0] for one, other in pairwise(spans))


def _turn(axes: Axes) -> None:
    """Rotate the labels of a horizontal axis."""
    side = "left" if axes.xaxis.get_ticks_position() == "top" else "right"
    for one in axes.xaxis.get_ticklabels():
        one.set(rotation=40, ha=side, rotation_mode="anchor")
