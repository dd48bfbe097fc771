"""Platforms of zones that are measured with SimGrid and compared: written here, small enough to be read."""

from __future__ import annotations

import itertools
import random

from labkit.machines.spec import parse_spec
from labkit.machines.zones import Zone
from labkit.machines.zones.spec import zones_xml

__all__ = ["EXACT", "PLATFORMS", "graph"]


def _hosts(zone: Zone, *names: str) -> None:
    for i, name in enumerate(names):
        zone.host(name, speed=1e9 * (1 + i % 3), cores=1 + i % 2)


def _full() -> Zone:
    """Every pair has its own way; one is one-way, one host has its own loopback."""
    zone = Zone("full")
    _hosts(zone, "a", "b", "c", "d")
    zone.link("ab", "1Gbps", "50us")
    zone.link("cable", "10Gbps", "1us", "splitduplex")
    zone.link("sky", "2Gbps", "5us", "fatpipe")
    zone.link("own", "5GBps", "300ns", "fatpipe")
    zone.route("a", "b", ["ab"])
    zone.route("a", "c", [("cable", "up"), "sky"])
    zone.route("b", "c", ["ab", "sky"], symmetrical=False)
    zone.route("c", "b", [("cable", "down"), "ab"], symmetrical=False)
    zone.route("a", "d", [("cable", "up"), "ab"])
    zone.route("b", "d", [("cable", "up"), "sky", "ab"])
    zone.route("c", "d", [("cable", "down")])
    zone.route("a", "a", ["own"])
    return zone


#: bandwidths (bytes/s) and latencies (s) of cables
USUAL = ([1e8, 1e9, 1.25e9], [1e-6, 1e-5])
#: Sums, products and quotients of these are exact in a double, or round the same way (README.md, fat pipes).
EXACT = ([2.0**27, 2.0**30], [2.0**-20, 2.0**-18])
Numbers = tuple[list[float], list[float]]


def graph(routing: str, seed: int, hosts: int, routers: int, extra: int, numbers: Numbers = USUAL) -> Zone:
    """A random connected graph with many equally short ways."""
    bandwidths, latencies = numbers
    draw = random.Random(seed)
    zone = Zone(f"graph{seed}", routing)
    names = [f"h{i}" for i in range(hosts)] + [f"r{i}" for i in range(routers)]
    for name in draw.sample(names, len(names)):
        if name[0] == "h":
            zone.host(name)
        else:
            zone.router(name)
    inner = [name for name in names if name[0] == "r"]
    pairs = [(inner[i], inner[draw.randrange(i)]) for i in range(1, routers)]
    pairs += [(f"h{i}", draw.choice(inner)) for i in range(hosts)]
    while len(pairs) < hosts + routers - 1 + extra:
        a, b = draw.sample(inner, 2)
        if (a, b) not in pairs and (b, a) not in pairs:
            pairs.append((a, b))
    draw.shuffle(pairs)
    for number, (a, b) in enumerate(pairs):
        sharing = draw.choice(["shared", "splitduplex", "fatpipe"])
        names = [f"l{number}"] if draw.random() < 0.8 else [f"l{number}", f"m{number}"]
        for name in names:
            zone.link(name, draw.choice(bandwidths), draw.choice(latencies), sharing)
        zone.route(a, b, [(name, "up") if sharing == "splitduplex" else name for name in names])
    return zone


def _changing() -> Zone:
    """Speeds, bandwidths and latencies that change with time, once or again and again."""
    zone = Zone("changing", "full")
    zone.host("a", speed=1e9, speed_profile="PERIODICITY 0.05\n0.01 0.5\n0.03 1")
    zone.host("b", speed=1e9, speed_profile="0.02 0.25\n0.3 2")
    zone.host("c", speed=1e9)
    zone.link("ab", 1e8, 1e-4, bw_profile="PERIODICITY 0.02\n0.005 3e7\n0.013 9e7")
    zone.link("bc", 1e8, 1e-4, "splitduplex", bw_profile="0 5e7\n0.1 2e8\n0.2 4e7")
    zone.link("ac", 5e7, 1e-4, lat_profile="0.01 1e-3\n0.15 1e-5", bw_profile="PERIODICITY 1\n0.05 2e8")
    zone.route("a", "b", ["ab"])
    zone.route("b", "c", [("bc", "up")])
    zone.route("a", "c", ["ac"])
    return zone


def _one_way() -> Zone:
    """A link for each direction; each carries the acknowledgements of the other's messages."""
    zone = Zone("one_way", "full")
    zone.host("here", speed=3e7, speed_profile="0 0.6\n1.5 1\n4 0.2\n7 3\nLOOPAFTER 8")
    zone.host("there", speed=3e7)
    bw_profile, lat_profile = "2 2500000\n5 4e6\nLOOPAFTER 7", "1 2e-4\n3 0.002\nLOOPAFTER 5"
    zone.link("out", 1.5e6, 8e-4, bw_profile=bw_profile, lat_profile=lat_profile)
    zone.link("back", 1.2e6, 1.9e-3)
    zone.route("here", "there", ["out"], symmetrical=False)
    zone.route("there", "here", ["back"], symmetrical=False)
    return zone


def _pipe() -> Zone:
    """Two pairs of hosts with one fat pipe in common; the second pair is eight times as far apart."""
    zone = Zone("pipe", "full")
    _hosts(zone, "a", "b", "c", "d")
    zone.link("pipe", 2.0**24, 2.0**-20, "fatpipe")
    zone.link("near", 2.0**30, 2.0**-20)
    zone.link("far", 2.0**30, 15 * 2.0**-20)
    for src, dst, cable in (("a", "b", "near"), ("c", "d", "far")):
        zone.route(src, dst, [cable, "pipe"])
    for src in "ab":
        for dst in "cd":
            zone.route(src, dst, ["far"])
    return zone


def _clusters(routing: str, is_transit: bool) -> Zone:
    """A star, a torus, a fat tree and a room of hosts in one zone; with transit, in a chain.

    SimGrid 3.32 gives a torus and a fat tree no router, so hosts are their gateways.
    """
    zone = Zone("campus", routing)
    star = "star:4,bb_bw=2GBps,bb_lat=3us,limiter=1.5GBps"
    zone.cluster("star", parse_spec(star), prefix="s-", suffix=".x", radical=[(1, 2), (7, 8)], router="sr")
    zone.cluster("torus", "torus:3x2,loopback_bw=5GBps")
    zone.cluster("tree", "fattree:2x2:1x2:1x1,bw=1Gbps,lat=5us")
    room = zone.zone("room", "full")
    _hosts(room, "x", "y")
    room.router("door")
    room.link("desk", "1Gbps", "7us")
    room.link("shelf", "2Gbps", "1us", "splitduplex")
    room.route("x", "y", ["desk"])
    room.route("x", "door", [("shelf", "up")])
    room.route("y", "door", ["desk", ("shelf", "up")])
    ends = [("star", "sr"), ("torus", "torus-1"), ("tree", "tree-2"), ("room", "door")]
    chain = list(itertools.pairwise(ends))
    everything = [(a, b) for i, a in enumerate(ends) for b in ends[i + 1 :]]
    for (a, gw_a), (b, gw_b) in chain if is_transit else everything:
        link = f"{a}-{b}"
        zone.link(link, "10Gbps", "20us", "splitduplex" if b == "torus" else "shared")
        zone.route(a, b, [(link, "up") if b == "torus" else link], gw_src=gw_a, gw_dst=gw_b)
    return zone


def _nested() -> Zone:
    """Zones in zones in zones, crossed from one gateway to another one."""
    top = Zone("top", "floyd")
    for name in ("left", "middle", "right"):
        site = top.zone(name, "full")
        for hall in ("1", "2"):
            inner = site.zone(f"{name}{hall}", "floyd" if hall == "1" else "dijkstra")
            _hosts(inner, f"{name}{hall}a", f"{name}{hall}b")
            inner.router(f"{name}{hall}r")
            for end in "ab":
                link = f"{name}{hall}-{end}"
                inner.link(link, "1Gbps", "3us", "splitduplex")
                inner.route(f"{name}{hall}{end}", f"{name}{hall}r", [(link, "up")])
        site.link(f"{name}-spine", "10Gbps", "2us")
        site.route(
            f"{name}1", f"{name}2", [f"{name}-spine"], gw_src=f"{name}1r", gw_dst=f"{name}2r"
        )  # fmt: skip
    top.link("west", "2Gbps", "100us")
    top.link("east", "2Gbps", "200us", "splitduplex")
    top.route("left", "middle", ["west"], gw_src="left2r", gw_dst="middle1r")
    top.route("middle", "right", [("east", "up")], gw_src="middle2r", gw_dst="right1r")
    return top


#: name -> platform XML; all written by `labkit.machines.zones.spec`
PLATFORMS = {
    "full": zones_xml(_full()),
    "floyd-8": zones_xml(graph("floyd", 1, 6, 8, 7)),
    "floyd-14": zones_xml(graph("floyd", 2, 10, 14, 16)),
    "dijkstra-8": zones_xml(graph("dijkstra", 3, 6, 8, 7)),
    "dijkstra-14": zones_xml(graph("dijkstra", 4, 10, 14, 16)),
    "pipe-exact": zones_xml(_pipe()),
    "floyd-exact": zones_xml(graph("floyd", 4, 10, 14, 16, EXACT)),
    "dijkstra-exact": zones_xml(graph("dijkstra", 4, 10, 14, 16, EXACT)),
    "clusters-full": zones_xml(_clusters("full", is_transit=False)),
    "clusters-floyd": zones_xml(_clusters("floyd", is_transit=True)),
    "clusters-dijkstra": zones_xml(_clusters("dijkstra", is_transit=True)),
    "nested": zones_xml(_nested()),
    "changing": zones_xml(_changing()),
    "changing-one-way": zones_xml(_one_way()),
}
