"""Joints between the points of a zone: the links of its routes, by their two ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from labkit.platform.zones.zone import Zone

__all__ = ["joints", "uplinks"]

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
