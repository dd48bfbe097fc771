"""Routes on tori, fat trees and dragonflies are those of SimGrid 3.32, link by link.

The figures are SimGrid's own: ``benchmarks/simgrid/routes.py`` asked for them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import golden_files
import pytest

import labkit as lk
from labkit.machines.spec import ClusterSpec
from labkit.machines.topologies.dragonfly import DragonflySpec
from labkit.machines.topologies.fat_tree import FatTreeSpec

GOLDEN = json.loads((Path(__file__).parent / "simgrid_routes.json").read_text())
PLATFORMS = GOLDEN["platforms"]


def ends(name: str, machine: ClusterSpec) -> tuple[str, ...]:
    """What a link joins and in which direction, in SimGrid's numbers of hosts and switches."""
    if found := re.fullmatch(r"(limiter|loopback)(?: of)? ?(.*)", name):
        return found[1], str(number(found[2], machine))
    if found := re.fullmatch(r"(\d+) (->|-) (\d+) \(([+-]?).*\)", name):  # a torus: who owns the cable?
        low, high = (found[3], found[1]) if found[4] == "-" else (found[1], found[3])
        return low, high, "UP" * (found[4] == "+") or "DOWN" * (found[4] == "-")
    found = re.fullmatch(r"(\D+[\d.]+) (->|-) (\D+[\d.]+)(?:, cable \d+|, (\w+))?", name)
    assert found, name
    if isinstance(machine, DragonflySpec):
        return dragonfly_ends(*found.groups(), machine)
    first, second = number(found[1], machine), number(found[3], machine)
    if found[2] == "-":
        return str(first), str(second), ""
    is_up = level(found[1]) < level(found[3])
    return (str(first), str(second), "UP") if is_up else (str(second), str(first), "DOWN")


def dragonfly_ends(
    first: str, arrow: str, second: str, color: str | None, fly: DragonflySpec
) -> tuple[str, ...]:
    """SimGrid numbers routers through; green and black cables go by chassis, group and place."""
    routers = [place_of(node) for node in (first, second) if node.startswith("router")]
    if color is None:
        own = router_number(routers[0], fly)
        host = next(int(node.split()[1]) for node in (first, second) if node.startswith("host"))
        way = "" if arrow == "-" else "UP" if first.startswith("host") else "DOWN"
        return "local", str(own), str(host - own * fly.counts[-1]), way
    (a, b), way = sorted(routers), "" if arrow == "-" else "UP" if routers[0] < routers[1] else "DOWN"
    if color == "green":
        return "green", str(a[1]), str(a[2]), str(b[2]), way
    if color == "black":
        return "black", str(a[0]), str(a[1]), str(b[1]), str(a[2]), way
    return "blue", str(a[0]), str(b[0]), str(router_number(a, fly)), str(router_number(b, fly)), way


def place_of(router: str) -> list[int]:
    return [int(part) for part in router.split()[1].split(".")]


def router_number(place: list[int], fly: DragonflySpec) -> int:
    return (place[0] * fly.counts[2] + place[1]) * fly.counts[4] + place[2]


def level(node: str) -> int:
    return int(node.split()[1].split(".")[0]) if node.startswith("switch") else 0


def number(node: str, machine: ClusterSpec) -> int:
    """SimGrid numbers switches and routers downwards from twice the hosts, from the lowest level on."""
    word = node.split()[-1]
    if not node.startswith(("switch", "router")):
        return int(word)
    last = 2 * (machine.hosts or 0) - 1
    if isinstance(machine, DragonflySpec):
        return last - router_number(place_of(node), machine)
    assert isinstance(machine, FatTreeSpec)
    below = sum(machine.nodes(lower) for lower in range(1, level(node)))
    return last - below - int(word.split(".")[1])


def simgrid_ends(name: str) -> tuple[str, ...]:
    if found := re.fullmatch(r"(local|green|black|blue)_link_(.*)_\d+(?:_(UP|DOWN))?", name):
        return found[1], *re.findall(r"\d+", found[2]), found[3] or ""
    if found := re.fullmatch(r"\w+_link_(\d+)_(limiter|loopback)", name):
        return found[2], found[1]
    if found := re.fullmatch(r"torus_link_from_(\d+)_to_(\d+)_?(UP|DOWN)?", name):
        return found[1], found[2], found[3] or ""
    found = re.fullmatch(r"link_from_(-?\d+)_(-?\d+)_\d+_?(UP|DOWN)?", name)
    assert found, name
    return found[1], found[2], found[3] or ""


def test_they_are_of_the_version_promised_and_many() -> None:
    assert GOLDEN["simgrid"] == "3.32"
    assert sum(len(p["routes"]) for p in PLATFORMS) > 3000


@pytest.mark.parametrize("golden", PLATFORMS, ids=[p["spec"] for p in PLATFORMS])
def test_every_route_is_simgrids(golden: dict[str, object]) -> None:
    machine = lk.platform(str(golden["spec"])).sized(int(str(golden["ranks"])))
    built = machine.build(int(str(golden["ranks"])))
    description = machine.description
    theirs_of: dict[str, str] = {}
    for line in golden_files.unpack_routes(golden["links"], golden["routes"]):
        src, dst, latency, *theirs = line.split()
        ours, own_latency = built.route(int(src), int(dst))
        # A message within a host may cross its limiter, and a cable of both directions, twice.
        assert len(theirs) == len(set(theirs)) or src == dst
        assert len(ours) == len(theirs), line
        assert [ends(name, description) for name in ours] == [simgrid_ends(name) for name in theirs], line
        assert own_latency == float(latency)
        for name, other in zip(ours, theirs, strict=True):
            # Parallel cables have the same ends: the names must correspond one to one.
            assert theirs_of.setdefault(name, other) == other
    assert len(set(theirs_of.values())) == len(theirs_of)
    hosts = built.host_count
    missing = hosts * hosts - len(golden["routes"])  # type: ignore[arg-type]
    # SimGrid refuses messages within a host of a torus without a loopback or limiter.
    has_own = (
        description.KIND != "torus" or description.loopback_bw is not None or description.limiter is not None
    )
    assert missing == (0 if has_own else hosts)
