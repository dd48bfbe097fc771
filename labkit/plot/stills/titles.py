"""Lines of text above and below the frame of a plot, in a still picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from labkit.plot.stills.glyphs import pt
from labkit.plot.style import wrap

__all__ = ["Line", "below", "draw_above", "draw_line", "titles"]

_LARGEST_PX, _USUAL_PX = 15.0, 13.0
#: a letter's mean width, and a line's height, in sizes of the letters
_WIDE, _BOLD, _HIGH = 0.57, 0.66, 1.4


@dataclass(frozen=True)
class Line:
    """A line of text: what it says, and its look."""

    text: str
    size_px: float
    color: str
    is_bold: bool

    @property
    def height_px(self) -> float:
        """What it takes of the picture's height."""
        return _HIGH * self.size_px


def titles(things: Sequence[Any]) -> Iterator[Line]:
    """Yield the lines of text among the things beside a frame."""
    for thing in things:
        if type(thing).__name__ == "Title" and thing.text:
            size = str(thing.text_font_size or "").removesuffix("px")
            points = float(size) if size.replace(".", "").isdigit() else _USUAL_PX
            is_bold = "bold" in str(thing.text_font_style)
            yield Line(thing.text, min(points, _LARGEST_PX), thing.text_color or "#222222", is_bold)


def below(plot: Any, width_px: float) -> list[Line]:
    """Return the lines below a plot, downwards; lines of one look are broken anew to fit the width.

    Matplotlib's letters are wider than a browser's.
    """
    lines = []
    for _, same in groupby(titles(plot.below), key=lambda one: (one.size_px, one.color, one.is_bold)):
        first, *others = same
        letters = int(width_px / (first.size_px * (_BOLD if first.is_bold else _WIDE)))
        for text in wrap(" ".join([first.text, *(one.text for one in others)]), max(20, letters)):
            lines.append(Line(text, first.size_px, first.color, first.is_bold))
    return lines


def draw_above(axes: Any, plot: Any) -> None:
    """Draw the lines above a plot, upwards from its frame."""
    above = 3.0
    for line in titles((plot.title, *plot.above)):
        points = pt * line.size_px
        axes.annotate(
            line.text, (0, 1), xycoords="axes fraction", xytext=(0, above), textcoords="offset points",
            fontsize=points, color=line.color, va="bottom", annotation_clip=False, weight=_weight(line),
        )  # fmt: skip
        above += 1.35 * points * (line.text.count("\n") + 1)


def draw_line(page: Any, line: Line, left: float, middle: float) -> None:
    """Draw a line at a place of a page, in shares of it."""
    page.text(left, middle, line.text, fontsize=pt * line.size_px, color=line.color, va="center",
              weight=_weight(line))  # fmt: skip


def _weight(line: Line) -> str:
    return "bold" if line.is_bold else "normal"
