"""Drawings of machines: the places of hosts, switches and cables, and a small SVG picture of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape

__all__ = ["Layout", "Point", "circle", "picture"]

Point = tuple[float, float]

_GREY, _HOST, _SWITCH = "#9a9a9a", "#0072B2", "#E69F00"
_MARGIN = 14.0


def circle(count: int) -> Iterator[Point]:
    """Go round the unit circle, clockwise from its top."""
    for i in range(count):
        angle = math.pi / 2 - 2 * math.pi * i / count
        yield math.cos(angle), math.sin(angle)


@dataclass
class Layout:
    """A drawing: named points, and each cable as one line or, round an end, two stubs.

    `cables`: (name, name), in rising order of drawing, to the lines that draw it.
    `tints`: Colors of cables, by their names as in `cables`; others are grey.
    `notes`: The text next to the drawing.
    `said`: How to read it.
    `links`: Cable to the names of the links that it consists of, where these are not named after its ends.
    `host_points`: The point of each host, None for one that is not drawn; None where they are named ``host
        0``, ...
    `is_tree`: Rows from the hosts upwards, which may be stretched; everything else keeps its proportions.
    """

    hosts: dict[str, Point] = field(default_factory=dict)
    switches: dict[str, Point] = field(default_factory=dict)
    cables: dict[tuple[str, str], list[list[Point]]] = field(default_factory=dict)
    tints: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: list[tuple[float, float, str]] = field(default_factory=list)
    links: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    host_points: list[str | None] | None = None
    said: str = ""
    is_tree: bool = False

    def at(self, name: str) -> Point:
        """Where a host or switch is."""
        return self.hosts[name] if name in self.hosts else self.switches[name]

    def join(self, a: str, b: str) -> None:
        """Draw a cable as a straight line."""
        self.cables.setdefault((a, b), [[self.at(a), self.at(b)]])

    def bend(self, a: str, b: str, sag: Point, tint: str | None = None) -> None:
        """Draw a cable as a curve: its middle is moved aside, so as not to run over what is between."""
        (ax, ay), (bx, by) = self.at(a), self.at(b)
        steps = 8 if any(sag) else 1
        line = []
        for step in range(steps + 1):
            t = step / steps
            bulge = 4 * t * (1 - t)
            line.append((ax + t * (bx - ax) + bulge * sag[0], ay + t * (by - ay) + bulge * sag[1]))
        self.cables.setdefault((a, b), [line])
        if tint:
            self.tints[a, b] = tint

    def lines(self, a: str, b: str) -> list[list[Point]]:
        """The lines of the cable between two neighbors, or a straight one where none is drawn."""
        return self.cables.get((a, b)) or self.cables.get((b, a)) or [[self.at(a), self.at(b)]]


def picture(layout: Layout, width: int = 360, height: int = 260) -> str:
    """Draw a layout."""
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
    circles = "".join(_dot(to_pixels(at), radius) for at in layout.hosts.values())
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


def _dot(at: Point, radius: float) -> str:
    return f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:g}"/>'


def _square(at: Point, radius: float) -> str:
    side = 2 * radius
    return f'<rect x="{at[0] - radius:.1f}" y="{at[1] - radius:.1f}" width="{side:g}" height="{side:g}"/>'
