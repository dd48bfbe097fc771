"""A legend's place: a corner of the frame where it covers no data, or else beside the frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from bokeh.models import Legend

from labkit.plot.style import FONT

__all__ = ["add_legend", "free_corner"]

Floats = npt.NDArray[np.float64]

#: pixels: a letter, a line, the sample before a label with the paddings, and what an axis takes
_LETTER, _LINE, _SAMPLE, _AXES = 6.9, 22.0, 46.0, 75.0
_CORNERS = ("top_left", "top_right", "bottom_right", "bottom_left")


def add_legend(
    fig: Any,
    items: Sequence[tuple[str, list[Any]]],
    data: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
    taken: float = 0.0,
) -> None:
    """Give a figure with fixed ranges a legend that covers none of its data.

    Parameters
    ----------
    fig : bokeh figure
        With `Range1d` on both axes.
    items : sequence of (str, list of renderers)
    data : iterable of (x, y)
        Points and lines that must stay in sight, in data coordinates.
    taken : float
        Pixels of the figure's height that lines of text above and below the frame will take.
    """
    legend = Legend(items=list(items), orientation="vertical", click_policy="hide")
    legend.label_text_font, legend.label_text_font_size = FONT, "12px"
    legend.border_line_color, legend.background_fill_alpha = "#dddddd", 0.85
    legend.padding, legend.spacing, legend.margin = 6, 1, 8
    longest = max((len(text) for text, _ in items), default=0)
    wide = float(fig.frame_width or fig.width - _AXES)
    high = float(fig.frame_height or fig.height - _AXES - taken)
    size = ((longest * _LETTER + _SAMPLE) / wide, (len(items) * _LINE + 28) / high)
    corner = free_corner([_placed(fig, x, y) for x, y in data], size)
    if corner is None:
        legend.border_line_color = None
        fig.add_layout(legend, "right")
    else:
        legend.location = corner
        fig.add_layout(legend)


def free_corner(data: Sequence[tuple[Floats, Floats]], size: tuple[float, float]) -> str | None:
    """Return the first corner in which a box covers none of the data; None where there is none.

    Parameters
    ----------
    data : sequence of (x, y)
        Arrays of places in the frame, from 0 at the left and the bottom to 1.
    size : (float, float)
        Of the box, in shares of the frame.

    Examples
    --------
    >>> rising = np.linspace(0, 1, 50)
    >>> free_corner([(rising, rising)], (0.3, 0.3)), free_corner([(rising, 1 - rising)], (0.3, 0.3))
    ('top_left', 'top_right')
    >>> free_corner([(rising, rising), (rising, 1 - rising)], (0.3, 0.3)) is None
    True
    """
    if not (size[0] < 1 and size[1] < 1):
        return None
    for corner in _CORNERS:
        left, bottom = (1 - size[0] if "right" in corner else 0.0), (1 - size[1] if "top" in corner else 0.0)
        if not any(_inside(x, y, left, bottom, size) for x, y in data):
            return corner
    return None


def _inside(x: Floats, y: Floats, left: float, bottom: float, size: tuple[float, float]) -> bool:
    across = (x >= left) & (x <= left + size[0])
    return bool((across & (y >= bottom) & (y <= bottom + size[1])).any())


def _placed(fig: Any, x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return data as places in the frame."""
    found = []
    for values, span, scale in ((x, fig.x_range, fig.x_scale), (y, fig.y_range, fig.y_scale)):
        ends, at = np.array([span.start, span.end], float), np.asarray(values, float)
        if "Log" in type(scale).__name__:
            with np.errstate(divide="ignore", invalid="ignore"):
                ends, at = np.log(ends), np.log(at)
        found.append((at - ends[0]) / (ends[1] - ends[0]))
    return found[0], found[1]
