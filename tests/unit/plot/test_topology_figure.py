"""Pictures of machines: every host and cable is there, routes follow the engine's, large ones say so."""

from __future__ import annotations

import itertools
import math

import pytest

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines.spec.cluster import MAX_DRAWN_HOSTS
from labkit.plot import topology
from labkit.plot.topology_figure import Cables, way
from tests.support.refusals import raises_code

SPECS = [
    "star:5",
    "star:4,sharing=shared",
    "torus:1",
    "torus:2",
    "torus:9",
    "torus:4x3",
    "torus:1x4x1",
    "torus:3x3x3",
    "torus:6x5x5",
    "torus:3x2x2x2x2",
    "torus:4x4,limiter=1GBps,sharing=shared",
    "fattree:4:1:1",
    "fattree:4x4:1x2:1x2",
    "fattree:2x3x2:2x2x3:1x2x1,limiter=1GBps",
    "fattree:3x2:1x2:2x1,sharing=shared",
    "dragonfly:3x2:2x1:3x1:2,routing=shortest",
    "dragonfly:1x1:4x1:4x1:1,routing=shortest,sharing=shared",
    "dragonfly:5x1:1x1:2x1:1,limiter=1GBps",
]


@pytest.mark.parametrize("spec", SPECS)
def test_everything_stands_at_a_place_of_its_own(spec: str) -> None:
    machine = lk.platform(spec)
    layout = machine.description.lay_out()
    assert list(layout.hosts) == [f"host {i}" for i in range(machine.hosts or 0)]
    places = [(round(x, 6), round(y, 6)) for x, y in [*layout.hosts.values(), *layout.switches.values()]]
    assert len(set(places)) == len(places)
    assert all(math.isfinite(v) for place in places for v in place)
    assert topology(spec).alt.startswith("Picture of a machine")


@pytest.mark.parametrize("spec", SPECS)
def test_a_route_goes_over_drawn_cables_from_its_source_to_its_destination(spec: str) -> None:
    machine = lk.platform(spec)
    layout = machine.description.lay_out()
    built = machine.build(1)
    is_sliced = "layers" in layout.said or "slices" in layout.said
    for src in range(built.host_count):
        for dst in range(built.host_count):
            if src == dst:
                continue
            hops, text = way(machine, built, Cables(layout), (src, dst))
            assert hops[0][0] == f"host {src}"
            assert hops[-1][1] == f"host {dst}"
            assert all(a[1] == b[0] for a, b in itertools.pairwise(hops))
            links = [n for n in built.route(src, dst)[0] if not n.startswith("limiter")]
            assert len(hops) == len(links)
            assert f"From host {src} to host {dst}" in text
            if not is_sliced:
                assert all(hop in layout.cables or hop[::-1] in layout.cables for hop in hops)


def test_a_torus_draws_the_cables_that_are_used() -> None:
    assert len(lk.platform("torus:4x4").description.lay_out().cables) == 32
    assert len(lk.platform("torus:2x2").description.lay_out().cables) == 4
    assert len(lk.platform("torus:3x3x3").description.lay_out().cables) == 81
    wrapped = lk.platform("torus:4x4").description.lay_out().lines("host 3", "host 0")
    assert len(wrapped) == 2  # a stub at either end


@pytest.mark.parametrize(
    "spec",
    [
        "torus:16x16x16",
        "torus:1024x1024",
        "star:5000",
        "fattree:32x32:1x32:1x1",
        "fattree:64x4:8x64:1x1",
        "dragonfly:16x4:6x3:16x1:4",
    ],
)
def test_a_large_machine_is_drawn_as_a_smaller_sibling_and_says_so(spec: str) -> None:
    sibling = lk.platform(spec).description.smaller()
    assert (sibling.hosts or 0) <= MAX_DRAWN_HOSTS
    figure = topology(spec)
    assert "a smaller one" in figure.reading
    with raises_code(PlatformError, "out-of-range"):
        topology(spec, route=(0, 1))


def test_growing_machines_take_a_size_and_bad_routes_are_refused() -> None:
    assert topology("torus", ranks=27).reading.startswith("torus of 3x3x3")
    assert topology("fattree").reading.startswith("fat tree 4x4:1x4:1x1 of 16 hosts")
    assert topology("dragonfly", ranks=60).reading.startswith("dragonfly 4x2:1x1:4x1:4 of 64 hosts")
    with raises_code(PlatformError, "out-of-range", "0", "3", "4"):
        topology("star:4", route=(0, 4))
    assert "0 to host 10: 4 links, 4 µs." in topology("torus:4x4", route=(0, 10)).reading


@pytest.mark.parametrize("spec", ["dragonfly:2x2:1x1:4x1:2", "dragonfly:4x2:3x1:4x1:2"])
def test_names_of_groups_stand_inside_the_picture_and_beside_their_hosts(spec):
    fig = topology(spec).layout
    fig = getattr(fig, "children", [fig])[0]
    layout = lk.platform(spec).description.lay_out()
    wide = 24 * (fig.x_range.end - fig.x_range.start) / fig.width  # half of a name
    for x, y, name in layout.notes:
        assert fig.x_range.start < x - wide < x + wide < fig.x_range.end, name
        assert fig.y_range.start < y < fig.y_range.end, name
        near = [1 for a, b in layout.hosts.values() if abs(a - x) < wide and abs(b - y) < wide / 4]
        assert not near, name
