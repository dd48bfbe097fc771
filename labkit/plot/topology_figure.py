"""A picture of a simulated machine: hosts, switches, cables, and the way of one message."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, HoverTool, LinearColorMapper, Range1d
from bokeh.plotting import figure

from labkit.errors import PlatformError
from labkit.machines.drawing import Layout
from labkit.machines.platform import Platform, platform
from labkit.plot.figure import Figure
from labkit.plot.style import COLORS, FONT, PERCENT, TOOLS, style_axes
from labkit.text.html import quantity

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = ["Cables", "draw_layout", "topology", "way"]


_LABELED = 64


def topology(
    machine: str | os.PathLike[str] | Platform | Sequence[object],
    *,
    ranks: int | None = None,
    route: tuple[int, int] | None = None,
    width: int = 760,
    height: int = 520,
) -> Figure:
    """Draw a machine.

    Parameters
    ----------
    machine : Platform or what `labkit.platform` reads
        A star, a torus (a ring, a grid, a box; larger ones as slices), a fat tree, a dragonfly, or zones.
    ranks : int, optional
        The size of a machine that grows; default 16.
    route : (int, int), optional
        Two hosts: the way of a message from the first to the second is drawn thick.
    width, height : int
        Pixels.

    Returns
    -------
    Figure
        Above 600 hosts or 3000 cables a smaller sibling is drawn, and the reading states that.

    Raises
    ------
    PlatformError
        Not a machine; a route between hosts that are not there, or on a machine too large to be drawn.

    Examples
    --------
    >>> topology("torus:4x4", route=(0, 10)).reading
    'torus of 4x4 hosts. Stubs continue at the opposite end. From host 0 to host 10: 4 links, 4 µs.'
    """
    whole = platform(machine)
    if ranks or whole.hosts is None:
        whole = whole.sized(ranks or 16)
    drawn = Platform(whole.description.smaller())
    built = whole.description.build([0])
    layout = drawn.description.lay_out()
    reading = f"{built!r}. {layout.said}"
    is_whole = drawn.description == whole.description
    if not is_whole:
        reading = f"{built!r}; the picture shows a smaller one, {drawn.description.size}. {layout.said}"
    hops: list[Cable] = []
    if route is not None:
        if not is_whole:
            raise PlatformError(
                f"{whole.name} is too large to draw a route; draw a smaller one, such as {drawn.spec}",
                code="out-of-range",
            )
        hops, text = way(whole, built, Cables(layout), route)
        reading += f" {text}"
    fig = draw_layout(layout, width, height, hops=hops)
    kinds = f"{len(layout.hosts)} hosts, {len(layout.switches)} switches" if layout.switches else ""
    alt = f"Picture of a machine: {reading} {kinds or f'{len(layout.hosts)} hosts'} are drawn."
    return Figure(fig, reading, alt)


def way(
    machine: Platform, built: _kernels.Platform, cables: Cables, route: tuple[int, int]
) -> tuple[list[Cable], str]:
    """Return the hops of a route, by the names of the drawing, and what they cost, as text."""
    src, dst = route
    hosts = built.host_count
    if not all(isinstance(host, int) and 0 <= host < hosts for host in route):
        raise PlatformError(
            f"{machine.name} has hosts 0 to {hosts - 1}; got a route from {src!r} to {dst!r}",
            code="out-of-range",
        )
    try:
        names, latency = built.route(src, dst)
    except ValueError as error:
        raise PlatformError(f"{machine.name}: {error}", code="not-connected") from None
    text = f"From host {src} to host {dst}: {len(names)} link{'s' if len(names) != 1 else ''}"
    return cables.hops(names, src, dst), f"{text}, {quantity(latency, 's', 6)}."


def draw_layout(
    layout: Layout,
    width: int,
    height: int,
    value_of: Callable[[str, str], float] | None = None,
    mapper: LinearColorMapper | None = None,
    *,
    hops: Sequence[tuple[str, str]] = (),
    form: str = PERCENT,
) -> figure:
    """Draw a machine's layout as a Bokeh figure."""
    fig = figure(width=width, height=height, tools=TOOLS, match_aspect=False)
    if value_of is None:
        by_tint: dict[str, list[list[tuple[float, float]]]] = {}
        for cable, several in layout.cables.items():
            by_tint.setdefault(layout.tints.get(cable, "#9a9a9a"), []).extend(several)
        for tint, lines in by_tint.items():
            _multi(fig, lines, color=tint, width=0.6 if len(layout.cables) > 800 else 1.0, alpha=0.75)
    else:
        _heated(fig, layout, value_of, mapper, form)
    _multi(fig, [line for hop in hops for line in layout.lines(*hop)], color=COLORS[1], width=4.0, alpha=0.95)
    busy = {name for hop in hops for name in hop}
    ends = {hops[0][0], hops[-1][1]} if hops else set()
    total = len(layout.hosts)
    size = 16 if total <= 16 else 11 if total <= 64 else 7 if total <= 200 else 5
    if layout.is_tree:  # its hosts stand in one row
        size = max(2, min(size, int(0.45 * width / total)))
    _nodes(fig, layout.switches, busy, ends, "square", COLORS[4], size + 2)
    _nodes(fig, layout.hosts, busy, ends, "circle", COLORS[0], size).name = "hosts"
    _write(fig, layout, ends, 11 if total <= 32 else 9)
    fig.axis.visible = False
    fig.grid.visible = False
    _frame(fig, layout, width, height)
    style_axes([fig])
    fig.outline_line_color = None
    return fig


def _heated(
    fig: figure,
    layout: Layout,
    value_of: Callable[[str, str], float],
    mapper: LinearColorMapper | None,
    form: str,
) -> None:
    """Draw the cables in the colors of their values, the largest last."""
    rows = [(value_of(*ends), ends, line) for ends, several in layout.cables.items() for line in several]
    rows.sort(key=lambda row: row[0])
    top = max((row[0] for row in rows), default=0.0) or 1.0
    source = ColumnDataSource(
        {
            "xs": [[x for x, _ in line] for _, _, line in rows],
            "ys": [[y for _, y in line] for _, _, line in rows],
            "value": [v for v, _, _ in rows],
            "wide": [1.0 + 3.0 * v / top for v, _, _ in rows],
            "name": [f"{a} to {b}" for _, (a, b), _ in rows],
        }
    )
    color: object = {"field": "value", "transform": mapper} if mapper is not None else "#9a9a9a"
    drawn = fig.multi_line(
        xs="xs", ys="ys", line_color=color, line_width="wide", line_cap="round", source=source
    )
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=[("", "@name"), ("", f"@value{{{form}}}")]))


def _multi(
    fig: figure, lines: list[list[tuple[float, float]]], color: str, width: float, alpha: float
) -> None:
    if lines:
        fig.multi_line(
            xs=[[x for x, _ in line] for line in lines],
            ys=[[y for _, y in line] for line in lines],
            line_color=color,
            line_width=width,
            line_alpha=alpha,
            line_cap="round",
        )


def _nodes(
    fig: figure,
    nodes: dict[str, tuple[float, float]],
    busy: set[str],
    ends: set[str],
    marker: str,
    color: str,
    size: int,
) -> Any:
    if not nodes:
        return None
    source = ColumnDataSource(
        {
            "x": [x for x, _ in nodes.values()],
            "y": [y for _, y in nodes.values()],
            "name": list(nodes),
            "line": [COLORS[1] if name in busy else "white" for name in nodes],
            "wide": [3.0 if name in ends else 2.0 if name in busy else 1.0 for name in nodes],
            "size": [size + 5 if name in ends else size for name in nodes],
        }
    )
    drawn = fig.scatter(
        x="x",
        y="y",
        size="size",
        marker=marker,
        source=source,
        fill_color=color,
        line_color="line",
        line_width="wide",
    )
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=[("", "@name")]))
    return drawn


def _write(fig: figure, layout: Layout, ends: set[str], points: int) -> None:
    """Label hosts (the ends of a route only, where it is crowded), and the notes."""
    is_tree = layout.is_tree
    is_fly = len(layout.switches) > 1 and not is_tree
    crowded = len(layout.hosts) > (_LABELED // 2 if is_tree or is_fly else _LABELED)
    chosen = {n: p for n, p in layout.hosts.items() if not crowded or n in ends}
    radii = [x * x + y * y for x, y in layout.hosts.values()]
    is_round = max(radii) - min(radii) < 1e-9 * max(radii) and len(radii) > 2
    right = 0 if is_round or is_tree or is_fly else 5 + points // 4
    down = 0 if is_round else 12 if is_tree else 10 if is_fly else 5
    source = ColumnDataSource(
        {
            "x": [x * 1.1 if is_round else x for x, _ in chosen.values()],
            "y": [y * 1.1 if is_round else y for _, y in chosen.values()],
            "text": [name.removeprefix("host ") for name in chosen],
            "right": [
                right + (3 if right and name in ends else 0) for name in chosen
            ],  # ends are drawn larger
            "down": [down + (3 if down and name in ends else 0) for name in chosen],
        }
    )
    fig.text(
        x="x",
        y="y",
        text="text",
        source=source,
        x_offset="right",
        y_offset="down",
        text_font=value(FONT),
        text_font_size=f"{points}px",
        text_color="#222222",
        text_align="center" if is_round or is_tree or is_fly else "left",
        text_baseline="middle" if is_round else "top",
    )
    if layout.notes:
        fig.text(
            x=[x for x, _, _ in layout.notes],
            y=[y for _, y, _ in layout.notes],
            text=[text for _, _, text in layout.notes],
            text_font=value(FONT),
            text_font_size="12px",
            text_color="#444444",
            text_align="right" if is_tree else "center" if is_fly else "left",
            text_baseline="middle",
            x_offset=-12 if is_tree else 0,
        )


def _frame(fig: figure, layout: Layout, width: int, height: int) -> None:
    """Room around the drawing; trees may be stretched, all others keep their proportions."""
    points = [*layout.hosts.values(), *layout.switches.values()]
    points += [point for several in layout.cables.values() for line in several for point in line]
    if layout.switches and not layout.is_tree:  # names of groups stand outside them
        points += [(x, y) for x, y, _ in layout.notes]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    spare = 0.08 * max(right - left, high - low, 1.0)
    if layout.notes and layout.is_tree:
        longest = max(len(text) for _, _, text in layout.notes)
        left -= (right - left) * (longest * 6.6 + 20) / max(width - longest * 6.6 - 60, 100)
    elif layout.notes and not layout.switches:
        low -= 0.8
    left, right, low, high = left - spare, right + spare, low - spare, high + spare
    if not (layout.notes and layout.is_tree):
        scale = max((right - left) / width, (high - low) / height)
        x, y = (left + right) / 2, (low + high) / 2
        left, right = x - scale * width / 2, x + scale * width / 2
        low, high = y - scale * height / 2, y + scale * height / 2
    fig.x_range, fig.y_range = Range1d(left, right), Range1d(low, high)


# Cables of a drawing: the one that a link is part of, the hops of a route.


Cable = tuple[str, str]
#: a cable's name: host, switch or router, direction, another one
_NODE = r"(\d+|host \d+|switch [\d.]+|router [\d.]+)"
_CABLE = re.compile(rf"{_NODE} (?:->|-) {_NODE}")


class Cables:
    """The cables of a drawn machine.

    Parameters
    ----------
    layout : Layout
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._of_link: dict[str, Cable] = {}
        self._at: dict[str, list[tuple[str, frozenset[str]]]] = {}
        for (a, b), links in layout.links.items():
            for link in links:
                self._of_link.setdefault(link, (a, b))
            for here, there in ((a, b), (b, a)):
                self._at.setdefault(here, []).append((there, frozenset(links)))

    def host(self, number: int) -> str | None:
        """Name the point of a host; None if it is not drawn."""
        points = self._layout.host_points
        return f"host {number}" if points is None else points[number]

    def of_link(self, link: str) -> Cable | None:
        """Name the two ends of the cable that a link is a part of; None if it is not drawn."""
        if self._layout.host_points is not None:
            return self._of_link.get(link)
        if found := _CABLE.match(link):
            a, b = (end if " " in end else f"host {end}" for end in found.groups())
            return a, b
        role, _, host = link.partition(" ")
        return (f"host {host}", "switch") if role in ("up", "down", "link") else None

    def loads(self, values: Iterable[tuple[str, float]]) -> dict[Cable, float]:
        """Return the largest value of the links of each cable (its ends in the order of the alphabet)."""
        found: dict[Cable, float] = {}
        for link, load in values:
            ends = self.of_link(link)
            if ends is not None:
                key = min(ends, ends[::-1])
                found[key] = max(found.get(key, 0.0), load)
        return found

    def hops(self, links: Sequence[str], src: int, dst: int) -> list[Cable]:
        """Return the drawn hops of a route, given its links, in order.

        Links that are not drawn are passed over; the last hop leads to the destination where it is drawn.
        """
        if self._layout.host_points is None:
            return self._named_hops(links, src)
        here = self.host(src)
        if here is None:
            return []
        hops: list[Cable] = []
        place = 0
        while place < len(links):
            reach, there = self._farthest(links, place, here)
            hub = here.rpartition(" ")[0]
            if not reach and (here, hub) in self._layout.cables and self._farthest(links, place, hub)[0]:
                there = hub  # out of a zone whose inner links are not drawn
            if there:
                hops.append((here, there))
                here = there
            place += reach or not there
        target = self.host(dst)
        if target is not None and here != target:
            hops += self._way(here, target)
        return hops

    def _farthest(self, links: Sequence[str], place: int, here: str) -> tuple[int, str]:
        """How many of the next links one cable at a point takes, and where it leads."""
        runs = ((_run(links, place, own), there) for there, own in self._at.get(here, []))
        reach, there = max(runs, default=(0, ""), key=lambda one: one[0])
        return (reach, there) if reach else (0, "")

    def _way(self, here: str, target: str) -> list[Cable]:
        """Go on to a host of the same zone, or over that zone."""
        cables = self._layout.cables
        if (here, target) in cables or (target, here) in cables:
            return [(here, target)]
        middle = target.rpartition(" ")[0]
        if (target, middle) in cables and (here, middle) in cables:
            return [(here, middle), (middle, target)]
        return []

    def _named_hops(self, links: Sequence[str], src: int) -> list[Cable]:
        hops: list[Cable] = []
        here = f"host {src}"
        for name in links:
            if found := _CABLE.match(name):
                ends = [end if " " in end else f"host {end}" for end in found.groups()]
                there = ends[1] if ends[0] == here else ends[0]
            elif name.startswith(("up ", "link ")) and here != "switch":
                there = "switch"
            elif name.startswith(("down ", "link ")):
                there = f"host {name.split()[1]}"
            else:
                continue
            hops.append((here, there))
            here = there
        return hops


def _run(links: Sequence[str], place: int, own: frozenset[str]) -> int:
    """How many links from here on belong to the cable."""
    count = 0
    while place + count < len(links) and links[place + count] in own:
        count += 1
    return count
