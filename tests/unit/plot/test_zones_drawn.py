"""Machines of zones as pictures: routes go over drawn cables, heat stands on the cable of its links."""

from __future__ import annotations

import itertools

import pytest

import labkit as lk
from labkit.plot import heat, topology
from labkit.plot.topology_figure import Cables


def ring() -> lk.Platform:
    return lk.graph([(i, (i + 1) % 6) for i in range(6)])


def tree_of_switches() -> lk.Platform:
    return lk.graph([("a", "s"), ("b", "s"), ("s", "t"), ("c", "t"), ("d", "t")])


def star_zone() -> lk.Platform:
    zone = lk.Zone("s", routing="star")
    for i in range(4):
        zone.host(f"h{i}")
        zone.link(f"l{i}", "1GBps", "1us", "splitduplex")
        zone.link(f"limit{i}", "2GBps")
        zone.route(f"h{i}", "", [f"limit{i}", (f"l{i}", "up")])
    return lk.platform(zone)


def full_zone() -> lk.Platform:
    zone = lk.Zone("pairs")
    for name in "xyz":
        zone.host(name)
    for a, b in itertools.combinations("xyz", 2):
        zone.link(f"{a}{b}", "1GBps", "1us")
        zone.route(a, b, [f"{a}{b}"])
    return lk.platform(zone)


def two_clusters() -> lk.Platform:
    root = lk.Zone("all")
    a, b = root.cluster("A", "star:5"), root.cluster("B", "torus:2x2")
    root.link("wan", "1GBps", "1ms")
    root.route("A", "B", ["wan"], gw_src=a.router, gw_dst=b.router)
    return lk.platform(root)


MACHINES = {
    "ring": ring, "tree": tree_of_switches, "star": star_zone, "full": full_zone, "clusters": two_clusters,
    "graphene": lambda: lk.platform("graphene"), "tibidabo": lambda: lk.platform("tibidabo"),
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_a_route_goes_over_drawn_cables_from_host_to_host(name: str) -> None:
    machine = MACHINES[name]()
    layout, built = machine.description.lay_out(), machine.build(1)
    cables = Cables(layout)
    hosts = built.host_count
    assert [cables.host(i) for i in range(hosts)] == list(layout.host_points or [])
    assert set(layout.host_points or []) <= set(layout.hosts)
    for src, dst in itertools.product(range(0, hosts, max(1, hosts // 12)), repeat=2):
        if src == dst:
            continue
        hops = cables.hops(built.route(src, dst)[0], src, dst)
        assert (hops[0][0], hops[-1][1]) == (cables.host(src), cables.host(dst))
        assert all(a[1] == b[0] for a, b in itertools.pairwise(hops))
        assert all(hop in layout.cables or hop[::-1] in layout.cables for hop in hops)


@pytest.mark.parametrize("name", MACHINES)
def test_every_link_of_a_cable_exists_and_stands_on_one_cable_only(name: str) -> None:
    machine = MACHINES[name]()
    layout, built = machine.description.lay_out(), machine.build(1)
    known = {built.link_name(i) for i in range(built.link_count)}
    listed = [link for links in layout.links.values() for link in links]
    assert len(listed) == len(set(listed))
    roles = ("link", "limiter")  # of a star, where it has them
    assert {link for link in listed if link.split(": ")[-1].split()[0] not in roles} <= known


def test_racks_meet_in_a_core_where_their_routes_share_uplinks() -> None:
    layout = lk.platform("tibidabo").description.lay_out()
    assert layout.links["rack2", "core"] == ("uplink2 down", "uplink2 up")
    assert ("rack1", "rack2") not in layout.cables


def test_heat_stands_on_the_cable_of_its_link() -> None:
    def to_the_right(comm: object) -> None:
        if comm.rank == 0:
            comm.send(b"x" * 100_000, 1)
        elif comm.rank == 1:
            comm.recv()

    run = lk.run(to_the_right, 3, on=ring(), trace=True)
    figure = heat(run.explain())
    assert figure.reading.startswith("graph: busiest cables over the run: 0 to 1 ")
    assert " 2 " not in figure.reading
    assert "B: " not in heat(lk.run(to_the_right, 3, on=two_clusters(), trace=True).explain()).reading


def test_links_inside_a_zone_are_not_passed_over_in_silence() -> None:
    def inside(comm: object) -> None:
        if comm.rank == 5:
            comm.send(b"x" * 100_000, 6)
        elif comm.rank == 6:
            comm.recv()

    reading = heat(lk.run(inside, 9, on=two_clusters(), trace=True).explain()).reading
    assert "Not drawn: links inside zones, B: 0 -> 1 (+x)" in reading


def test_a_route_is_drawn_and_told() -> None:
    figure = topology("graphene", route=(0, 143))
    assert "From host 0 to host 143: 8 links, 72 µs." in figure.reading
