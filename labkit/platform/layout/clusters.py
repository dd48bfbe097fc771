"""The places of a cluster's hosts, switches and cables in its drawing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from labkit.errors import PlatformError
from labkit.platform.layout.base import Layout, Point
from labkit.platform.layout.dragonfly import lay_out_dragonfly, smaller_dragonfly
from labkit.platform.layout.zones import lay_out_zones
from labkit.platform.spec import DragonflySpec, FatTreeSpec, MachineSpec, StarSpec, TorusSpec
from labkit.platform.zones.spec import ZonesSpec

__all__ = ["Layout", "lay_out", "smaller"]

#: Beyond these a smaller sibling is drawn: hosts, and cables.
MAX_DRAWN_HOSTS, MAX_DRAWN_CABLES = 600, 3000
#: A torus of three dimensions up to this size is drawn as one box, else as layers.
MAX_BOX_HOSTS = 125
STUB = 0.42


def smaller(spec: MachineSpec) -> MachineSpec:
    """Find the machine itself, or a sibling small enough to be drawn."""
    if isinstance(spec, StarSpec):
        return replace(spec, hosts=64) if (spec.hosts or 0) > MAX_DRAWN_HOSTS else spec
    while isinstance(spec, TorusSpec) and (spec.hosts or 0) > MAX_DRAWN_HOSTS:
        assert spec.sizes is not None
        longest = max(spec.sizes)
        spec = replace(spec, sizes=tuple(max(1, s // 2) if s == longest else s for s in spec.sizes))
    while isinstance(spec, FatTreeSpec) and (
        (spec.hosts or 0) > MAX_DRAWN_HOSTS
        or sum(map(spec.level_cables, range(len(spec.down or ())))) > MAX_DRAWN_CABLES
    ):
        lists = (spec.down or (), spec.up or (), spec.cables or ())
        longest = max(map(max, lists))
        down, up, cables = (tuple(-(-n // 2) if n == longest else n for n in part) for part in lists)
        spec = replace(spec, down=down, up=up, cables=cables)
    if isinstance(spec, DragonflySpec):
        return smaller_dragonfly(spec, MAX_DRAWN_HOSTS, MAX_DRAWN_CABLES)
    return spec


def lay_out(spec: MachineSpec) -> Layout:
    """Place hosts, switches and cables of a sized machine."""
    if isinstance(spec, StarSpec):
        return _star(spec)
    if isinstance(spec, FatTreeSpec):
        return _tree(spec)
    if isinstance(spec, TorusSpec):
        return _torus(spec)
    if isinstance(spec, DragonflySpec):
        return lay_out_dragonfly(spec)
    if isinstance(spec, ZonesSpec):
        return lay_out_zones(spec)
    raise PlatformError(f"there is no picture of a {spec.KIND}")


def _circle(count: int) -> Iterator[Point]:
    for i in range(count):
        angle = math.pi / 2 - 2 * math.pi * i / count
        yield math.cos(angle), math.sin(angle)


def _star(spec: StarSpec) -> Layout:
    layout = Layout(said="Every message crosses the cables of its two hosts.")
    layout.switches["switch"] = (0.0, 0.0)
    for i, point in enumerate(_circle(spec.hosts or 1)):
        layout.hosts[f"host {i}"] = point
        layout.join(f"host {i}", "switch")
    if spec.bb_bw is not None:
        layout.said = "Every message crosses the cables of its two hosts, and the backbone in the switch."
    return layout


def _tree(spec: FatTreeSpec) -> Layout:
    assert spec.down is not None
    assert spec.up is not None
    assert spec.cables is not None
    levels, hosts = len(spec.down), spec.hosts or 1
    width = max(float(hosts), 4.0)
    layout = Layout(said="Messages go up to a switch that the destination chooses, then down.", is_tree=True)

    def name(level: int, number: int) -> str:
        return f"switch {level}.{number}" if level else f"host {number}"

    for level in range(levels + 1):
        count = spec.nodes(level)
        row = layout.switches if level else layout.hosts
        for i in range(count):
            row[name(level, i)] = ((i + 0.5) * width / count, level * 0.22 * width)
        what = (
            f"{count:,} {'switch' if level else 'host'}{'es' if level and count > 1 else 's' * (count > 1)}"
        )
        if level and spec.cables[level - 1] > 1:
            what += f", {spec.cables[level - 1]} cables to each below"
        layout.notes.append((0.0, level * 0.22 * width, what))
    for level in range(levels):
        low, down = math.prod(spec.up[:level]), spec.down[level]
        for child in range(spec.nodes(level)):
            for parent in range(spec.up[level]):
                above = child % low + low * (parent + spec.up[level] * (child // low // down))
                layout.join(name(level, child), name(level + 1, above))
    return layout


def _torus(spec: TorusSpec) -> Layout:
    assert spec.sizes is not None
    sizes = tuple(size for size in spec.sizes if size > 1) or (1,)
    hosts = math.prod(sizes)
    if len(sizes) == 1:
        layout = Layout(said="A ring: messages go the shorter way round.")
        radius = max(1.0, hosts / 6)
        for i, (x, y) in enumerate(_circle(hosts)):
            layout.hosts[f"host {i}"] = (radius * x, radius * y)
        for i in range(hosts if hosts > 2 else hosts - 1):
            layout.join(f"host {i}", f"host {(i + 1) % hosts}")
        return layout
    is_box = len(sizes) == 3 and hosts <= MAX_BOX_HOSTS
    drawn = 3 if is_box else 2
    layout = Layout(said="Stubs continue at the opposite end.")
    if len(sizes) > drawn:
        slices = "layers" if len(sizes) == 3 else "slices"
        layout.said += f" Hosts at the same place of neighbouring {slices} are joined, too."
    steps = _steps(sizes, is_box)
    for number, place in enumerate(_places(sizes)):
        if len(sizes) == 3 and not is_box:  # layers in rows, as a page is read
            columns = math.ceil(math.sqrt(sizes[2]))
            place = (place[0], place[1], place[2] % columns, -(place[2] // columns))
        x = sum(p * step[0] for p, step in zip(place, steps, strict=False))
        y = sum(p * step[1] for p, step in zip(place, steps, strict=False))
        layout.hosts[f"host {number}"] = (x, y)
    _cables_of_torus(layout, sizes, steps, drawn)
    if not is_box:
        _name_slices(layout, sizes, steps)
    return layout


def _places(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for place in itertools.product(*(range(size) for size in reversed(sizes))):
        yield place[::-1]


def _steps(sizes: tuple[int, ...], is_box: bool) -> list[Point]:
    """How far apart neighbours are in each dimension: slices alternate between right and up."""
    if is_box:
        return [(1.0, 0.0), (0.0, 1.0), (0.42, 0.31)]
    if len(sizes) == 3:
        sizes = (*sizes, 1)
    steps: list[Point] = []
    extent = [1.0, 1.0]
    for dimension, size in enumerate(sizes):
        axis = dimension % 2
        steps.append((extent[0], 0.0) if axis == 0 else (0.0, extent[1]))
        extent[axis] = extent[axis] * size + (1.2 if dimension < 2 else 0.6 * (dimension // 2 + 1))
    return steps


def _cables_of_torus(layout: Layout, sizes: tuple[int, ...], steps: list[Point], drawn: int) -> None:
    for number, place in enumerate(_places(sizes)):
        stride = 1
        for dimension, size in enumerate(sizes[:drawn]):
            a, (dx, dy) = f"host {number}", steps[dimension]
            if place[dimension] + 1 < size:
                layout.join(a, f"host {number + stride}")
            elif size > 2:
                b = f"host {number - (size - 1) * stride}"
                (ax, ay), (bx, by) = layout.at(a), layout.at(b)
                layout.cables[a, b] = [
                    [(ax, ay), (ax + STUB * dx, ay + STUB * dy)],
                    [(bx, by), (bx - STUB * dx, by - STUB * dy)],
                ]
            stride *= size


def _name_slices(layout: Layout, sizes: tuple[int, ...], steps: list[Point]) -> None:
    plane = sizes[0] * sizes[1]
    for index, place in enumerate(_places(sizes[2:])):
        x, y = layout.at(f"host {index * plane}")
        names = "zwvuts"
        text = ", ".join(f"{names[d] if d < len(names) else f'd{d + 3}'}={p}" for d, p in enumerate(place))
        layout.notes.append((x - 0.3, y - 0.95, text))
