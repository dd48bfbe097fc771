"""Diameter, bisection and links of machines: formulas against all routes, all halvings, all links."""

from __future__ import annotations

import base64
import itertools
import re
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines.measure import MOST_ROWS
from tests.support.refusals import raises_code

SPECS = [
    "star:6",
    "star:7,bb_bw=3GBps,bb_lat=500ns,limiter=1GBps,loopback_bw=6GBps",
    "star:4,lat=24us,sharing=shared",
    "torus:7",
    "torus:2x3",
    "torus:4x2",
    "torus:3x3",
    "torus:2x2x2,limiter=2GBps",
    "torus:3x1x2,sharing=shared,loopback_bw=6GBps",
    "fattree:4:1:3",
    "fattree:2x3:1x2:2x1",
    "fattree:3x2:1x2:1x1",
    "fattree:2x2x2:1x2x1:2x1x1,limiter=1GBps",
    "fattree:4x2:1x1:1x1,sharing=shared",
    "fattree:2x4x1:1x1x2:1x3x1",
    "dragonfly:3x1:1x1:3x1:1",
    "dragonfly:2x1:2x1:2x1:1,limiter=1GBps",
    "dragonfly:1x1:2x2:2x3:2,sharing=shared",
    "dragonfly:4x1:1x1:1x1:2",
    "dragonfly:5x2:1x1:2x1:1",
]


@pytest.mark.parametrize("spec", SPECS)
def test_the_diameter_is_that_of_the_longest_route(spec: str) -> None:
    machine = lk.platform(spec)
    built, found = machine.build(1), machine.diameter
    assert found is not None
    assert found.is_exact
    longest, slowest = 0, 0.0
    for src, dst in itertools.permutations(range(built.host_count), 2):
        names, latency = built.route(src, dst)
        longest = max(longest, sum(not name.startswith("limiter") for name in names))
        slowest = max(slowest, latency)
    assert found.links == longest
    assert found.latency_s == pytest.approx(slowest, rel=1e-12)


def cables(spec: str) -> tuple[list[str], np.ndarray]:
    """Nodes, and the matrix of bandwidths between them, from the links' names alone."""
    built = lk.platform(spec).build(1)
    capacity: Counter[tuple[str, str]] = Counter()
    for name, rate, _, _ in map(built.link, range(built.link_count)):
        if name.startswith(("up ", "link ")):
            ends = [f"host {name.split()[1]}", "switch"]
        elif found := re.match(
            r"((?:host|switch|router) [\d.]+|\d+) (?:->|-) ((?:host|switch|router) [\d.]+|\d+)", name
        ):
            ends = [end if " " in end else f"host {end}" for end in found.groups()]
        else:
            continue
        if name.startswith("up ") or "sharing=shared" in spec:
            capacity[ends[0], ends[1]] += rate
            capacity[ends[1], ends[0]] += rate
        else:
            capacity[ends[0], ends[1]] += rate
    used = {pair for pair in capacity if pair[0] != pair[1]}
    nodes = sorted(
        {end for pair in used for end in pair}, key=lambda node: (not node.startswith("host"), node)
    )
    matrix = np.zeros((len(nodes) + 2, len(nodes) + 2))
    for low, high in used:
        matrix[nodes.index(low), nodes.index(high)] = capacity[low, high]
    return nodes, matrix


def narrowest(spec: str) -> float:
    """The least of all halvings' largest flows, in bytes/s one way."""
    nodes, matrix = cables(spec)
    hosts = [i for i, node in enumerate(nodes) if node.startswith("host")]
    if spec.startswith("torus") and "2" in spec.partition(",")[0]:
        matrix = used_only(spec, nodes, matrix)
    unit = 1.25e9
    best = np.inf
    for half in itertools.combinations(hosts, len(hosts) // 2):
        flows = matrix / unit
        flows[-2, list(half)] = 1e6
        flows[[h for h in hosts if h not in half], -1] = 1e6
        best = min(
            best, maximum_flow(csr_array(flows.astype(np.int32)), len(nodes), len(nodes) + 1).flow_value
        )
    return float(best) * unit


def used_only(spec: str, nodes: list[str], matrix: np.ndarray) -> np.ndarray:
    """Two hosts of a torus' dimension have two cables; messages use one of them."""
    machine = lk.platform(spec).build(1)
    names = {
        name
        for s, d in itertools.permutations(range(machine.host_count), 2)
        for name in machine.route(s, d)[0]
    }
    kept = np.zeros_like(matrix)
    for name in names:
        if found := re.match(r"(\d+) (?:->|-) (\d+)", name):
            i, j = (nodes.index(f"host {end}") for end in found.groups())
            kept[i, j] += 1.25e9
            if " - " in name:
                kept[j, i] += 1.25e9
    return kept


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "bb_bw" not in spec])
def test_the_bisection_is_the_narrowest_of_all_halvings(spec: str) -> None:
    found = lk.platform(spec).bisection
    assert found is not None
    true = narrowest(spec)
    if found.is_exact:
        assert found.bytes_per_s == pytest.approx(true)
    else:
        assert spec.startswith("dragonfly")
        assert found.bytes_per_s >= true * (1 - 1e-12)
    assert found.is_each_way == ("shared" not in spec)


def test_a_backbone_that_is_shared_bounds_the_star() -> None:
    assert lk.platform("star:8,bb_bw=2GBps").bisection.bytes_per_s == 2e9
    assert not lk.platform("star:8,bb_bw=2GBps").bisection.is_each_way
    assert lk.platform("star:8,bb_bw=20GBps").bisection.bytes_per_s == 5e9
    assert lk.platform("star:8,bb_bw=2GBps,bb_sharing=fatpipe").bisection.bytes_per_s == 5e9


def test_large_trees_have_a_bound_and_known_machines_known_figures() -> None:
    full = lk.platform("fattree:32x32:1x32:1x1").bisection
    assert (full.bytes_per_s, full.is_exact) == (512 * 1.25e9, True)
    large = lk.platform("fattree:64x64:1x64:1x1").bisection
    assert (large.bytes_per_s, large.is_exact) == (2048 * 1.25e9, False)
    assert str(lk.platform("torus:8x8x8").bisection) == "160GBps each way (128 cables across a slice)"
    assert lk.platform("star:1").bisection is lk.platform("star:1").diameter is None
    assert lk.platform("star:4,sharing=fatpipe").bisection is None
    assert lk.platform("star").bisection is lk.platform("star").diameter is None


@pytest.mark.parametrize("spec", SPECS)
def test_the_kinds_are_those_of_the_links_themselves(spec: str) -> None:
    machine = lk.platform(spec)
    frame = machine.links()
    assert len(frame) == machine.build(1).link_count
    assert frame["link"].is_unique
    counted = Counter(
        zip(frame["kind"], frame["bytes_per_s"], frame["latency_s"], frame["sharing"], strict=True)
    )
    told = {(k.kind, k.bytes_per_s, k.latency_s, k.sharing): k.count for k in machine.link_kinds()}
    assert told == counted


def test_machines_too_large_for_a_table_still_tell_their_kinds() -> None:
    machine = lk.platform("torus:128x128x64")
    assert sum(kind.count for kind in machine.description.link_kinds()) > MOST_ROWS
    with raises_code(PlatformError, "out-of-range", "link_kinds"):
        machine.links()
    assert machine.description.diameter().links == 160
    assert machine.description.bisection().bytes_per_s == 2 * 128 * 64 * 1.25e9


def drawing_of(page: str) -> str:
    (drawn,) = re.findall(r'<img alt="[^"]+" title="[^"]+" src="data:image/svg\+xml;base64,([^"]+)">', page)
    return base64.b64decode(drawn).decode()


@pytest.mark.parametrize(
    "spec", [*SPECS, "star", "torus", "fattree", "dragonfly", "torus:64x64x64", "star:1"]
)
def test_every_machine_shows_itself(spec: str) -> None:
    machine = lk.platform(spec)
    assert repr(machine).startswith(f"Platform({spec!r})\n")
    page = machine._repr_html_()
    assert ElementTree.fromstring(drawing_of(page)).tag.endswith("svg")
    assert page.count("<table>") == page.count("</table>")
    assert "links" in page
    if machine.hosts is None:
        assert "for 16 ranks" in page
    elif machine.hosts > 1:
        assert "diameter" in page
        assert "bisection" in page
    if machine.hosts == 64**3:
        assert "a smaller one" in page


def test_graphs_and_zones_show_themselves() -> None:
    ring = lk.graph([(i, (i + 1) % 8) for i in range(8)], hosts=range(8), bw="10Gbps", lat="2us")
    assert str(ring.diameter) == "4 links, 8us"
    assert ring.bisection is None
    assert sum(kind.count for kind in ring.link_kinds()) == len(ring.links()) == ring.build(8).link_count
    assert drawing_of(ring._repr_html_()).count("<circle") == 8
    assert "diameter" in repr(ring)
    places = list(ring.description.lay_out().hosts.values())
    assert len({(round(x, 6), round(y, 6)) for x, y in places}) == 8
    # A ring of equal steps is drawn as one.
    assert np.ptp([np.hypot(*place) for place in places]) < 1e-9


def test_zones_of_zones_are_squares_with_their_hosts_around_them() -> None:
    site = lk.Zone("site")
    for name in ("left", "right"):
        site.cluster(name, "star:4", router=f"{name}-gate")
    site.link("between", bw="10Gbps", lat="5us")
    site.route("left", "right", ["between"], gw_src="left-gate", gw_dst="right-gate")
    machine = lk.platform(site)
    drawing = machine.description.lay_out()
    assert set(drawing.switches) == {"left", "right"}
    assert len(drawing.hosts) == 8
    assert "Zones are squares" in drawing.said
    assert drawing_of(machine._repr_html_()).count("<circle") == 8
    assert str(machine.diameter) == "3 links, 7us"
