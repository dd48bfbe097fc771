"""A small picture of a machine as SVG: for notebooks and pages, without a script."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from labkit.platform.layout.base import Layout, Point

__all__ = ["picture"]

_GREY, _HOST, _SWITCH = "#9a9a9a", "#0072B2", "#E69F00"
_MARGIN = 14.0


def picture(layout: Layout, width: int = 360, height: int = 260) -> str:
    """Draw a layout.

    Parameters
    ----------
    layout : Layout
        Of any machine; trees are stretched to the frame, everything else keeps its proportions.
    width, height : int
        Pixels.

    Returns
    -------
    str
        An ``<svg>`` element; its ``<title>`` and ``aria-label`` say what is drawn.
    """
    to_pixels = _scale(layout, width, height)
    lines: dict[str, list[str]] = {}
    for cable, several in layout.cables.items():
        path = "".join(_path(map(to_pixels, line)) for line in several)
        lines.setdefault(layout.tints.get(cable, _GREY), []).append(path)
    thin = 0.5 if len(layout.cables) > 400 else 1.0
    body = "".join(
        f'<path d="{"".join(paths)}" fill="none" stroke="{tint}" stroke-width="{thin}" stroke-opacity="0.8"/>'
        for tint, paths in lines.items()
    )
    radius = 4.5 if len(layout.hosts) <= 32 else 3.0 if len(layout.hosts) <= 150 else 1.8
    squares = "".join(_square(to_pixels(at), radius) for at in layout.switches.values())
    circles = "".join(_circle(to_pixels(at), radius) for at in layout.hosts.values())
    said = f"{len(layout.hosts)} hosts, {len(layout.switches)} switches, {len(layout.cables)} cables"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(said, quote=True)}">'
        f"<title>{escape(said)}</title>{body}"
        f'<g fill="{_SWITCH}">{squares}</g><g fill="{_HOST}">{circles}</g></svg>'
    )


class _Scale:
    """From a drawing's units to pixels, y upwards to y downwards."""

    def __init__(self, origin: Point, scale: Point, shift: Point, height: float) -> None:
        self.origin, self.scale, self.shift, self.height = origin, scale, shift, height

    def __call__(self, at: Point) -> Point:
        x = self.shift[0] + (at[0] - self.origin[0]) * self.scale[0]
        y = self.shift[1] + (at[1] - self.origin[1]) * self.scale[1]
        return x, self.height - y


def _scale(layout: Layout, width: float, height: float) -> _Scale:
    points = [*layout.hosts.values(), *layout.switches.values()]
    points += [point for several in layout.cables.values() for line in several for point in line]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    left, low = min(xs), min(ys)
    spans = (max(xs) - left or 1.0, max(ys) - low or 1.0)
    room = (width - 2 * _MARGIN, height - 2 * _MARGIN)
    x, y = room[0] / spans[0], room[1] / spans[1]
    if not layout.is_tree:
        x = y = min(x, y)
    used = ((max(xs) - left) * x, (max(ys) - low) * y)
    shift = ((width - used[0]) / 2, (height - used[1]) / 2)
    return _Scale((left, low), (x, y), shift, height)


def _path(points: Iterable[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _circle(at: Point, radius: float) -> str:
    return f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:g}"/>'


def _square(at: Point, radius: float) -> str:
    side = 2 * radius
    return f'<rect x="{at[0] - radius:.1f}" y="{at[1] - radius:.1f}" width="{side:g}" height="{side:g}"/>'
