"""The drawing of a machine of zones: a graph by its distances, zones of zones as rings of hosts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from labkit.errors import PlatformError
from labkit.platform.drawing import Layout, Point
from labkit.platform.zones.zone import Cluster, Host, Zone

__all__ = ["joints", "lay_out_zones"]

#: Points of the outermost zone, and hosts drawn round one of its zones.
MOST_POINTS, MOST_ROUND = 400, 48


# Joints between the points of a zone: the links of its routes, by their two ends.

Ends = tuple[str, str]


def joints(zone: Zone) -> dict[Ends, tuple[str, ...]]:
    """Return the links of each route of a zone, by its two ends, as the simulator names them.

    The middle of a star is the end "".
    """
    pairs = {link.name for inner in zone.walk() for link in inner.links if link.sharing == "splitduplex"}

    def named(name: str, way: str) -> str:
        return f"{name} {way or 'up'}" if name in pairs else name

    members = {"", *(one.name for one in zone.members)}
    found: dict[Ends, tuple[str, ...]] = {}
    turned = {"": "down", "up": "down", "down": "up"}
    for route in zone.routes:
        if route.src == route.dst or not {route.src, route.dst} <= members:
            continue
        found[route.src, route.dst] = tuple(named(name, way) for name, way in route.links)
        if route.symmetrical:
            back = tuple(named(name, turned[way]) for name, way in reversed(route.links))
            found.setdefault((route.dst, route.src), back)
    return found


def uplinks(names: Iterable[str], routes: Mapping[Ends, tuple[str, ...]]) -> dict[str, set[str]] | None:
    """Return the links that each point brings along to all of its routes, if every route consists of these.

    Examples
    --------
    >>> ways = {(x, y): (f"{x} up", f"{y} down") for x in "abc" for y in "abc" if x != y}
    >>> sorted(uplinks("abc", ways)["a"])
    ['a down', 'a up']
    >>> uplinks("ab", {("a", "b"): ("cable",), ("b", "a"): ("cable",)}) is None
    True
    """
    points = list(names)
    if any("" in ends for ends in routes):  # a star: each point has its way to the middle
        own: dict[str, set[str]] = {name: set() for name in points}
        for (a, b), links in routes.items():
            own[a or b] |= set(links)
        return own
    out: dict[str, set[str]] = {}
    into: dict[str, set[str]] = {}
    for (a, b), links in routes.items():
        out[a] = out.get(a, set(links)) & set(links)
        into[b] = into.get(b, set(links)) & set(links)
    if len(points) < 3 or set(out) != set(points) or set(into) != set(points):
        return None
    if any(not out[a] or not into[b] for a, b in routes):
        return None
    if any(out[a] & into[b] or out[a] | into[b] != set(links) for (a, b), links in routes.items()):
        return None
    return {name: out[name] | into[name] for name in points}


def lay_out_zones(root: Zone, name: str) -> Layout:
    """Place the hosts and routers of a zone, or its zones with their hosts around them."""
    points = root.members
    if len(points) > MOST_POINTS:
        raise PlatformError(f"{name} has {len(points):,} hosts and zones side by side: too many to be drawn")
    names = [one.name for one in points]
    cables = joints(root)
    core = next(name for name in ("core", "core of the machine", "") if name not in names)
    own = uplinks(names, cables)
    layout = Layout(said="Hosts stand as far apart as the routes say, as well as a plane can show it.")
    if own:
        places = _circle(len(names))
        layout.switches[core] = (0.0, 0.0)
        layout.links = {(name, core): tuple(sorted(links)) for name, links in own.items()}
    else:
        number = {name: i for i, name in enumerate(names)}
        edges = {(min(pair), max(pair)) for pair in ((number[a], number[b]) for a, b in cables)}
        places = _spread(len(names), edges)
        for a, b in sorted(edges):
            both = ((names[a], names[b]), (names[b], names[a]))
            layout.links[both[0]] = tuple(dict.fromkeys(x for pair in both for x in cables.get(pair, ())))
    if any(not isinstance(one, Host) for one in points):
        layout.said = "Zones are squares with their hosts around them; what joins those is not drawn."
    for one, (x, y) in zip(points, places, strict=True):
        is_host = isinstance(one, Host) and one.speed is not None
        (layout.hosts if is_host else layout.switches)[one.name] = (x, y)
    between = list(layout.links)
    for one, place in zip(points, places, strict=True):
        if not isinstance(one, Host):
            _surround(layout, one, place, 0.32 * _gap(places))
    for a_name, b_name in between:
        layout.join(a_name, b_name)
    layout.host_points = list(_host_points(points))
    return layout


def _host_points(points: list[Host | Zone | Cluster]) -> Iterator[str | None]:
    """Name the point of every host, in the order of their numbers; None for those that are not drawn."""
    for one in points:
        if not isinstance(one, Host):
            for i in range(_hosts_of(one)):
                yield f"{one.name} {i}" if i < MOST_ROUND else None
        elif one.speed is not None:
            yield one.name


def _surround(layout: Layout, zone: Zone | Cluster, place: Point, radius: float) -> None:
    """Draw a zone's hosts on a circle; of many, some, and their number beside it."""
    hosts = _hosts_of(zone)
    shown = min(hosts, MOST_ROUND)
    for i in range(shown):
        angle = 2 * math.pi * i / shown
        host = f"{zone.name} {i}"
        layout.hosts[host] = (place[0] + radius * math.cos(angle), place[1] + radius * math.sin(angle))
        layout.join(host, zone.name)
        if isinstance(zone, Cluster):
            layout.links[host, zone.name] = tuple(f"{zone.name}: {link}" for link in zone.spec.own_links(i))
    side = 1.3 if place[1] > 0 else -1.3  # away from what is in the middle
    layout.notes.append((place[0], place[1] + side * radius, f"{zone.name}: {hosts:,} hosts"))


def _hosts_of(zone: Zone | Cluster) -> int:
    if isinstance(zone, Cluster):
        return zone.spec.hosts or 0
    return sum(one.speed is not None if isinstance(one, Host) else _hosts_of(one) for one in zone.members)


def _gap(places: list[Point]) -> float:
    """The least distance between two points."""
    return min(
        (math.dist(a, b) for i, a in enumerate(places) for b in places[:i]),
        default=1.0,
    )


def _spread(count: int, edges: set[tuple[int, int]]) -> list[Point]:
    """Classical scaling of the distances in hops; on a circle where that puts points on one another."""
    if count == 1:
        return [(0.0, 0.0)]
    hops = _hops(count, edges)
    squares = hops**2
    centred = squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-0.5 * centred)
    axes = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    # An eigenvector's sign is arbitrary: the first clearly non-zero entry points right, or up.
    for axis in axes.T:
        large = axis[np.abs(axis) > 1e-9]
        if large.size and large[0] < 0:
            axis *= -1
    places = [(float(y), float(x)) for x, y in axes]
    if _gap(places) > 0.05:
        return places
    return _circle(count)


def _circle(count: int) -> list[Point]:
    turn = 2 * math.pi / count
    return [(math.sin(i * turn), math.cos(i * turn)) for i in range(count)]


def _hops(count: int, edges: set[tuple[int, int]]) -> NDArray[np.float64]:
    """Distances in edges; what is not connected is as far apart as all points in a row."""
    hops = np.full((count, count), float(count))
    np.fill_diagonal(hops, 0.0)
    for a, b in edges:
        hops[a, b] = hops[b, a] = 1.0
    for middle in range(count):
        np.minimum(hops, hops[:, middle, None] + hops[None, middle, :], out=hops)
    return hops
