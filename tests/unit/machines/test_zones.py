"""Machines made by hand and from graphs: what they are, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines.xml.writer import platform_xml
from labkit.machines.zones import ZonesSpec
from tests.support.refusals import raises_code


class FakeGraph:
    """What is used of a graph of NetworkX, which is not needed to test it."""

    def __init__(self, nodes: dict[Any, dict[str, Any]], edges: list[Any], is_directed: bool = False) -> None:
        self._nodes, self._edges, self._is_directed = nodes, edges, is_directed

    def nodes(self, data: bool = False) -> list[Any]:
        return list(self._nodes.items()) if data else list(self._nodes)

    def edges(self, data: bool = False) -> list[Any]:
        return self._edges

    def is_directed(self) -> bool:
        return self._is_directed


def test_leaves_are_hosts_and_the_rest_are_switches() -> None:
    tree = lk.graph([("a", "s"), ("b", "s"), ("c", "t", {"lat": "5us", "bw": "1Gbps"}), ("s", "t")])
    built = tree.build(3)
    assert tree.hosts == 3
    assert built.route(0, 2) == (["a - s up", "s - t up", "c - t down"], pytest.approx(7e-6))
    assert built.route(2, 0) == (["c - t up", "s - t down", "a - s down"], pytest.approx(7e-6))
    assert lk.platform([("a", "s"), ("b", "s")]).hosts == 2


def test_without_leaves_all_nodes_are_hosts_and_ways_are_shortest() -> None:
    ring = lk.graph([(i, (i + 1) % 7) for i in range(7)])
    built = ring.build(7)
    for src in range(7):
        for dst in range(7):
            gap = min((src - dst) % 7, (dst - src) % 7)
            assert len(built.route(src, dst)[0]) == max(gap, 1)


def test_hosts_may_be_chosen_and_give_the_order_of_ranks() -> None:
    edges = [("a", "s"), ("b", "s"), ("s", "c")]
    chosen = lk.graph(edges, hosts=["s", "b"], speed="2Gf", cores=4)
    assert [chosen.description.host_name(i) for i in range(2)] == ["s", "b"]
    assert (chosen.description.cores, chosen.description.speed, chosen.capacity) == (4, 2e9, 8)
    assert chosen.build(2).route(0, 1)[0] == ["b - s down"]


def test_a_graph_of_networkx_is_read_with_its_attributes() -> None:
    nodes = {1: {"kind": "host", "speed": "3Gf"}, 2: {"kind": "host"}, 3: {"kind": "switch"}}
    graph = FakeGraph(nodes, [(1, 3, {"bw": 1e9, "color": "red"}), (3, 2, {}), (2, 1, {})])
    machine = lk.platform(graph)
    assert machine.hosts == 2
    assert machine.build(2).speed(0) == 3e9
    assert machine.build(2).route(0, 1)[0] == ["2 - 1 down"]
    oneway = FakeGraph({1: {}, 2: {}, 3: {}}, [(1, 2, {}), (2, 3, {}), (3, 1, {})], is_directed=True)
    assert lk.platform(oneway).build(3).route(1, 0)[0] == ["2 - 3", "3 - 1"]


@pytest.mark.parametrize(
    ("edges", "wanted"),
    [
        ([], ("not-enough-data",)),
        ([(1, 2), (2, 1)], ("duplicate-name",)),
        ([(1, 1)], ("invalid-value",)),
        ([(1, 2, 3, 4)], ("wrong-type",)),
        ([(1, 2, "fast")], ("wrong-type",)),
        ([(1, 2, {"speed": 3})], ("unknown-name", "'speed'")),
        ([(1, 2), (3, 4)], ("not-connected",)),
        ([(1, "1"), (1, 2)], ("duplicate-name",)),
        ([("graph", 2)], ("name-taken", "'graph'")),
        (3.5, ("wrong-type",)),
        (b"ab", ("wrong-type",)),
    ],
)
def test_what_is_no_graph_is_refused(edges: Any, wanted: tuple[str, ...]) -> None:
    with raises_code(PlatformError, *wanted):
        lk.graph(edges)


def test_unknown_options_and_hosts_are_refused() -> None:
    with raises_code(PlatformError, "unknown-name", "'bandwidth'"):
        lk.graph([(1, 2)], bandwidth=3)
    with raises_code(PlatformError, "unknown-name", "9"):
        lk.graph([(1, 2)], hosts=[9])


def test_zones_refuse_what_cannot_be() -> None:
    def made(change: Callable[[lk.Zone], Any]) -> None:
        zone = lk.Zone("z", "floyd")
        zone.host("a")
        zone.host("b")
        zone.link("l", "1Gbps")
        zone.route("a", "b", ["l"])
        change(zone)
        lk.platform(zone)

    made(lambda zone: None)
    for change, why in [
        (lambda z: z.host("a"), "'a'"),
        (lambda z: z.host("c", cores=0), "cores"),
        (lambda z: z.host("c", speed=-1.0), "speed"),
        (lambda z: z.host("c\n"), r"'c\n'"),
        (lambda z: z.link("l", "1Gbps"), "'l'"),
        (lambda z: z.link("m", 0.0), "bandwidth"),
        (lambda z: z.route("b", "a", ["l"]), "from b to a"),
        (lambda z: z.route("a", "q", ["l"]), "'q'"),
        (lambda z: z.route("a", "", ["l"]), "middle"),
        (lambda z: z.route("a", "a", [("l", "sideways")]), "sideways"),
        (lambda z: z.members.append(z), "'z'"),
        (lambda z: z.zone("in").host("c"), "'z'"),
    ]:
        with raises_code(PlatformError, "name-taken" if why == "'a'" else "invalid-value", why):
            made(change)  # type: ignore[arg-type]


def star_of_zones() -> lk.Zone:
    top = lk.Zone("top", "star")
    for name in ("a", "b"):
        room = top.zone(name, "full")
        room.host(f"{name}1")
        room.host(f"{name}2")
        room.link(f"{name}-in", "1Gbps", "1us")
        room.route(f"{name}1", f"{name}2", [f"{name}-in"])
        top.link(f"{name}-up", "2Gbps", "3us", "splitduplex")
        top.route(name, "", [f"{name}-up"], gw_src=f"{name}1")
    return top


def test_a_star_of_zones_meets_in_the_middle(tmp_path: Path) -> None:
    machine = lk.platform(star_of_zones())
    assert machine.build(4).route(1, 3)[0] == ["a-in", "a-up up", "b-up down", "b-in"]
    path = tmp_path / "star.xml"
    path.write_text(platform_xml(machine, 4))
    assert lk.platform(path).description == machine.description


def test_a_machine_of_zones_may_be_pickled_compared_and_run() -> None:
    machine = lk.platform(star_of_zones())
    again = pickle.loads(pickle.dumps(machine))
    assert again == machine
    assert hash(again.description) == hash(machine.description)
    assert machine != lk.platform([("a", "s"), ("b", "s")])
    runs = [lk.run(lambda comm: comm.allreduce(comm.rank), 4, on) for on in (machine, again)]
    assert runs[0].makespan_s == runs[1].makespan_s > 0


def test_a_route_that_is_missing_is_named_when_a_message_needs_it() -> None:
    zone = lk.Zone("f", "full")
    for i in range(150):
        zone.host(f"h{i}")
    zone.link("l", "1GBps", "1us")
    for i in range(150):
        for j in range(i + 1, 150):
            if (i, j) != (77, 120):
                zone.route(f"h{i}", f"h{j}", ["l"])
    machine = lk.platform(zone)

    def program(comm: Any) -> None:
        if comm.rank == 77:
            comm.send(1, 120)
        if comm.rank == 120:
            comm.recv(source=77)

    with raises_code(lk.errors.LabkitError, "rank-failed", "77", "120"):
        lk.run(program, 150, machine)


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Connected graphs of 2 to 12 nodes."""
    count = draw(st.integers(2, 12))
    edges = {(draw(st.integers(0, i - 1)), i) for i in range(1, count)}
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda e: e[0] < e[1])
    return sorted(edges | draw(st.sets(pairs, max_size=12)))


@given(graphs(), st.sampled_from(["floyd", "dijkstra"]))
@settings(max_examples=60, deadline=None)
def test_ways_are_as_short_as_the_graph_allows(edges: list[tuple[int, int]], routing: str) -> None:
    machine = lk.graph(edges, hosts=sorted({node for edge in edges for node in edge}), routing=routing)
    count = machine.hosts or 0
    distance = [
        [0 if a == b else 1 if (min(a, b), max(a, b)) in edges else 99 for b in range(count)]
        for a in range(count)
    ]
    for via in range(count):
        for a in range(count):
            for b in range(count):
                distance[a][b] = min(distance[a][b], distance[a][via] + distance[via][b])
    built = machine.build(1)
    for a in range(count):
        for b in range(count):
            links, latency = built.route(a, b)
            if a == b:
                assert links == ["common loopback"]
                continue
            assert len(links) == distance[a][b]
            assert latency == pytest.approx(1e-6 * len(links))
            here = a
            for link in links:  # they join each other, from the first host to the last
                first, _, rest = link.partition(" - ")
                ends = {int(first), int(rest.split()[0])}
                assert here in ends
                (here,) = ends - {here}
            assert here == b


def test_a_specification_is_shown_and_refused_by_its_file() -> None:
    assert isinstance(lk.platform(star_of_zones()).description, ZonesSpec)
    assert "zones" in repr(lk.platform(star_of_zones()))
