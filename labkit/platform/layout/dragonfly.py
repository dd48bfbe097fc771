"""The drawing of a dragonfly: groups on a circle."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from labkit.platform.layout.base import Layout, Point
from labkit.platform.spec import DragonflySpec

__all__ = ["lay_out_dragonfly", "smaller_dragonfly"]

#: between the rows of a group, and from a router outwards to its hosts
_ROW, _STEM = 2.0, 0.8
_TINTS = {"green": "#009E73", "black": "#222222", "blue": "#0072B2"}
_WAYS = {
    "minimal": "Messages take SimGrid's minimal ways.",
    "shortest": "Messages take the shortest ways.",
    "valiant": "Messages go by a third group, drawn for each; the route of one that does not is told here.",
    "adaptive": "Messages may make a detour by a third group, by the loads; the route of one that does not "
    "is told here.",
}


def smaller_dragonfly(spec: DragonflySpec, most_hosts: int, most_cables: int) -> DragonflySpec:
    """Halve the largest count until the machine can be drawn."""
    while (spec.hosts or 0) > most_hosts or sum(spec.cables().values()) > most_cables:
        groups, _, chassis, _, routers, _, nodes = spec.counts
        largest = max(groups, chassis, routers, nodes)
        half = -(-largest // 2)
        if largest == groups:
            spec = replace(spec, groups=half)
        elif largest == routers:
            spec = replace(spec, routers=half)
        elif largest == chassis:
            spec = replace(spec, chassis=half)
        else:
            spec = replace(spec, nodes=half)
    return spec


@dataclass(frozen=True)
class _Frame:
    """A group's own axes: `u` along the circle, `v` outwards from its inner row."""

    radius: float
    angle: float

    def at(self, u: float, v: float) -> Point:
        x, y = self.turned(u, self.radius + v)
        return x, y

    def turned(self, u: float, v: float) -> Point:
        out = (math.cos(self.angle), math.sin(self.angle))
        return out[1] * u + out[0] * v, -out[0] * u + out[1] * v


def lay_out_dragonfly(spec: DragonflySpec) -> Layout:
    """Place a sized dragonfly: groups on a circle, a chassis a row of routers, hosts outwards from theirs."""
    groups, _, chassis, _, routers, _, _ = spec.counts
    layout = Layout(
        said=f"Groups stand on a circle, the rows of a group are its chassis. {_WAYS[spec.routing]}"
    )
    radius = groups * (routers + 1.0) / (2 * math.pi) if groups > 1 else 0.0
    for g in range(groups):
        frame = _Frame(max(radius, 1.5) if groups > 1 else 0.0, math.pi / 2 - 2 * math.pi * g / groups)
        for c, r in itertools.product(range(chassis), range(routers)):
            _place_router(layout, spec, frame, (g, c, r))
        _join_group(layout, spec, frame, g)
        if groups > 1:
            away = chassis * _ROW - _ROW + _STEM + 0.6 + 0.08 * radius * abs(math.cos(frame.angle))
            layout.notes.append((*frame.at(0.0, away), f"group {g}"))
    size = chassis * routers
    for i, j in itertools.combinations(range(groups), 2):
        ends = [f"router {g}.{o % size // routers}.{o % size % routers}" for g, o in ((i, j), (j, i))]
        layout.bend(ends[0], ends[1], (0.0, 0.0), _TINTS["blue"])
    return layout


def _place_router(layout: Layout, spec: DragonflySpec, frame: _Frame, router: tuple[int, int, int]) -> None:
    _, _, chassis, _, routers, _, nodes = spec.counts
    g, c, r = router
    u, v = r - (routers - 1) / 2, c * _ROW
    name = f"router {g}.{c}.{r}"
    layout.switches[name] = frame.at(u, v)
    first = ((g * chassis + c) * routers + r) * nodes
    for n in range(nodes):
        host = f"host {first + n}"
        layout.hosts[host] = frame.at(u + (n - (nodes - 1) / 2) * 0.7 / nodes, v + _STEM)
        layout.join(host, name)


def _join_group(layout: Layout, spec: DragonflySpec, frame: _Frame, g: int) -> None:
    """Green along a row and black across the rows; curved where they would run over a router."""
    _, _, chassis, _, routers, _, _ = spec.counts
    for c in range(chassis):
        for a, b in itertools.combinations(range(routers), 2):
            sag = frame.turned(0.0, -0.12 * (b - a - 1))
            layout.bend(f"router {g}.{c}.{a}", f"router {g}.{c}.{b}", sag, _TINTS["green"])
    for r in range(routers):
        for a, b in itertools.combinations(range(chassis), 2):
            sag = frame.turned(0.18 * (b - a - 1), 0.0)
            layout.bend(f"router {g}.{a}.{r}", f"router {g}.{b}.{r}", sag, _TINTS["black"])
