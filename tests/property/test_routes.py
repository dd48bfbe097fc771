"""Routes on random tori, fat trees and dragonflies: their laws, checked from the links' names alone."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit.machines.platform import Platform
from labkit.machines.spec import parse_spec
from labkit.machines.topologies.dragonfly import DragonflySpec
from labkit.machines.topologies.fat_tree import FatTreeSpec
from labkit.machines.topologies.torus import TorusSpec

EXTRAS = st.fixed_dictionaries({
    "lat": st.sampled_from([0.0, 1e-6, 3e-5]),
    "limiter": st.sampled_from([None, 1e9]),
    "loopback_bw": st.sampled_from([None, 6e9]),
    "sharing": st.sampled_from(["splitduplex", "shared", "fatpipe"]),
})  # fmt: skip


@st.composite
def tori(draw: st.DrawFn) -> TorusSpec:
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6).filter(lambda s: math.prod(s) <= 4000))
    return TorusSpec(sizes=tuple(sizes), **draw(EXTRAS))


@st.composite
def trees(draw: st.DrawFn) -> FatTreeSpec:
    levels = draw(st.integers(1, 4))

    def counts(most: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(1, most), min_size=levels, max_size=levels)))

    return FatTreeSpec(down=counts(5), up=counts(4), cables=counts(3), **draw(EXTRAS))


@st.composite
def dragonflies(draw: st.DrawFn) -> DragonflySpec:
    routing = draw(st.sampled_from(["minimal", "shortest", "valiant", "adaptive"]))
    seed = draw(st.integers(0, 2**63 - 1)) if routing in ("valiant", "adaptive") else 0
    names = ("groups", "chassis", "routers", "nodes", "blue", "black", "green")
    counts = {name: draw(st.integers(1, 6 if name == "groups" else 4)) for name in names}
    return DragonflySpec(routing=routing, seed=seed, **counts, **draw(EXTRAS))


def parts(names: list[str]) -> tuple[list[str], list[str]]:
    """Cables and limiters of a route."""
    limiters = [name for name in names if name.startswith("limiter")]
    return [name for name in names if name not in limiters], limiters


@given(tori(), st.data())
@settings(max_examples=150, deadline=None)
def test_torus_routes_are_minimal_and_join_neighbors(spec: TorusSpec, data: st.DataObject) -> None:
    assert spec.sizes is not None
    hosts = spec.hosts or 0
    src, dst = (data.draw(st.integers(0, hosts - 1)) for _ in range(2))
    built = Platform(spec).build(1)
    names, latency = built.route(src, dst)
    assert len(set(names)) == len(names) > 0
    if src == dst:
        return
    cables, limiters = parts(names)

    def place(host: int) -> list[int]:
        return [host // math.prod(spec.sizes[:j]) % size for j, size in enumerate(spec.sizes or ())]

    gaps = [
        min((b - a) % size, (a - b) % size)
        for a, b, size in zip(place(src), place(dst), spec.sizes, strict=True)
    ]
    assert len(cables) == sum(gaps)
    assert latency == pytest.approx(spec.lat * len(cables), rel=1e-12)
    visited, dimensions = [src], []
    for name in cables:
        found = re.fullmatch(r"(\d+) (?:->|-) (\d+) \(([+-]?)(.+)\)", name)
        assert found
        ends = [int(found[1]), int(found[2])]
        assert ends[0] == visited[-1] or (spec.sharing != "splitduplex" and ends[1] == visited[-1])
        visited.append(ends[1] if ends[0] == visited[-1] else ends[0])
        moved = [j for j, (a, b) in enumerate(zip(*map(place, visited[-2:]), strict=True)) if a != b]
        assert len(moved) == 1
        dimensions.append(moved[0])
    assert visited[-1] == dst
    assert dimensions == sorted(dimensions)
    assert limiters == ([f"limiter {host}" for host in visited] if spec.limiter else [])
    # The way back is as long, and over the same cables where no dimension is a tie.
    back, _ = built.route(dst, src)
    assert len(back) == len(names)
    if spec.sharing == "shared" and all(2 * gap < size for gap, size in zip(gaps, spec.sizes, strict=True)):
        axes = {name.rsplit("(", 1)[1] for name in cables}
        assert {name.rsplit("(", 1)[1] for name in parts(back)[0]} == axes


def check_within_a_host(spec: FatTreeSpec | DragonflySpec, names: list[str]) -> None:
    """Over the loopback, or to the first switch and back: limiter and a two-way cable come twice."""
    if spec.loopback_bw is not None:
        assert len(names) == 1
        return
    cables, limiters = parts(names)
    assert len(cables) == 2
    has_parallel = isinstance(spec, FatTreeSpec) and spec.cables is not None and spec.cables[0] > 1
    if not has_parallel:  # else the way back may be another cable
        assert len(set(cables)) == (2 if spec.sharing == "splitduplex" else 1)
    assert (len(limiters), len(set(limiters))) == ((0, 0) if spec.limiter is None else (3, 2))


@given(trees(), st.data())
@settings(max_examples=150, deadline=None)
def test_tree_routes_go_up_as_far_as_needed_and_down(spec: FatTreeSpec, data: st.DataObject) -> None:
    assert spec.down is not None
    hosts = spec.hosts or 0
    src, dst = (data.draw(st.integers(0, hosts - 1)) for _ in range(2))
    built = Platform(spec).build(1)
    names, latency = built.route(src, dst)
    if src == dst:
        check_within_a_host(spec, names)
        return
    assert len(set(names)) == len(names) > 0
    below = [math.prod(spec.down[:level]) for level in range(len(spec.down) + 1)]
    top = next(level for level in range(1, len(below)) if src // below[level] == dst // below[level])
    cables, limiters = parts(names)
    assert len(cables) == 2 * top
    assert latency == pytest.approx(spec.lat * len(cables), rel=1e-12)
    at, levels = f"host {src}", [0]
    visited = {at}
    for name in cables:
        found = re.match(r"(host \d+|switch [\d.]+) (->|-) (host \d+|switch [\d.]+)", name)
        assert found
        first, second = found[1], found[3]
        assert at == first or (found[2] == "-" and at == second)
        at = second if at == first else first
        visited.add(at)
        levels.append(int(at.split()[1].split(".")[0]) if at.startswith("switch") else 0)
    assert at == f"host {dst}"
    assert levels == [*range(top + 1), *range(top - 1, -1, -1)]
    assert limiters == [] or (len(limiters) == len(visited) and {n[11:] for n in limiters} == visited)
    assert bool(limiters) == (spec.limiter is not None)
    assert len(built.route(dst, src)[0]) == len(names)


@given(trees(), st.data())
@settings(max_examples=60, deadline=None)
def test_all_sources_of_a_subtree_meet_the_same_root_for_one_destination(
    spec: FatTreeSpec, data: st.DataObject
) -> None:
    """The destination alone chooses the topmost switch: that is what spreads a shift over the roots."""
    assert spec.down is not None
    hosts, size = spec.hosts or 0, spec.down[-1]
    dst = data.draw(st.integers(0, hosts - 1))
    built = Platform(spec).build(1)
    subtree = hosts // size
    sources = [s for s in range(hosts) if s // subtree != dst // subtree]
    tops = set()
    for src in sources[:: max(1, len(sources) // 20)]:
        cables = parts(built.route(src, dst)[0])[0]
        nodes = re.findall(r"switch [\d.]+", cables[len(cables) // 2])
        tops.add(max(nodes, key=lambda node: int(node.split()[1].split(".")[0])))
    assert len(tops) <= 1


@given(dragonflies(), st.data())
@settings(max_examples=150, deadline=None)
def test_dragonfly_routes_are_short_and_join_neighbors(spec: DragonflySpec, data: st.DataObject) -> None:
    hosts = spec.hosts or 0
    src, dst = (data.draw(st.integers(0, hosts - 1)) for _ in range(2))
    built = Platform(spec).build(1)
    names, latency = built.route(src, dst)
    if src == dst:
        check_within_a_host(spec, names)
        return
    assert len(set(names)) == len(names) > 0
    _, _, chassis, _, routers, _, nodes = spec.counts
    cables, limiters = parts(names)
    assert latency == pytest.approx(spec.lat * len(cables), rel=1e-12)

    def router(host: int) -> tuple[int, int, int]:
        number = host // nodes
        return number // routers // chassis, number // routers % chassis, number % routers

    colors = [name.partition(", ")[2] for name in cables]
    assert colors[0] == colors[-1] == ""
    assert [c for c in colors if c] == [c for c in colors[1:-1] if c]
    is_far = router(src)[0] != router(dst)[0]
    assert colors.count("blue") == is_far
    assert colors.count("green") <= 1 + is_far >= colors.count("black")
    if spec.routing == "minimal" and not is_far:  # SimGrid's peculiarity: links that do not join
        return
    at = f"host {src}"
    visited = [at]
    for name in cables:
        found = re.match(r"(host \d+|router [\d.]+) (->|-) (host \d+|router [\d.]+)", name)
        assert found
        first, second = found[1], found[3]
        assert at == first or (found[2] == "-" and at == second)
        at = second if at == first else first
        visited.append(at)
    assert at == f"host {dst}"
    assert len(set(visited)) == len(visited)
    assert sorted(limiters) == (sorted(f"limiter of {node}" for node in visited) if spec.limiter else [])
    here, there = router(src), router(dst)
    if not is_far:  # as short as can be
        assert len(cables) == 2 + (here[1] != there[1]) + (here[2] != there[2])
    assert len(built.route(dst, src)[0]) == len(names)


@given(st.one_of(tori(), trees(), dragonflies()))
@example(parse_spec(f"dragonfly:2x1:1x1:1x1:1,routing=valiant,seed={2**63 - 1}"))
def test_a_specification_reads_back_as_what_it_was(spec: TorusSpec | FatTreeSpec | DragonflySpec) -> None:
    assert parse_spec(str(spec)) == spec
