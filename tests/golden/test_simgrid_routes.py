"""Routes on tori and fat trees are those of SimGrid 3.32, link by link.

The figures are SimGrid's own: ``benchmarks/simgrid/routes.py`` asked for them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import labkit as lk
from labkit.sim.spec import FatTreeSpec

GOLDEN = json.loads((Path(__file__).parent / "simgrid_routes.json").read_text())
PLATFORMS = GOLDEN["platforms"]


def ends(name: str, tree: FatTreeSpec | None) -> tuple[str, ...]:
    """What a link joins and in which direction, in SimGrid's numbers of hosts and switches."""
    if found := re.fullmatch(r"(limiter|loopback)(?: of)? ?(.*)", name):
        return found[1], str(number(found[2], tree))
    if found := re.fullmatch(r"(\d+) (->|-) (\d+) \(([+-]?).*\)", name):  # a torus: who owns the cable?
        low, high = (found[3], found[1]) if found[4] == "-" else (found[1], found[3])
        return low, high, "UP" * (found[4] == "+") or "DOWN" * (found[4] == "-")
    found = re.fullmatch(r"(\D+[\d.]+) (->|-) (\D+[\d.]+)(?:, cable \d+)?", name)
    assert found, name
    first, second = number(found[1], tree), number(found[3], tree)
    if found[2] == "-":
        return str(first), str(second), ""
    is_up = level(found[1]) < level(found[3])
    return (str(first), str(second), "UP") if is_up else (str(second), str(first), "DOWN")


def level(node: str) -> int:
    return int(node.split()[1].split(".")[0]) if node.startswith("switch") else 0


def number(node: str, tree: FatTreeSpec | None) -> int:
    """SimGrid numbers switches downwards from twice the hosts, from the lowest level on."""
    word = node.split()[-1]
    if not node.startswith("switch"):
        return int(word)
    assert tree is not None
    assert tree.hosts is not None
    below = sum(tree.nodes(lower) for lower in range(1, level(node)))
    return 2 * tree.hosts - 1 - below - int(word.split(".")[1])


def simgrid_ends(name: str) -> tuple[str, ...]:
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
    tree = machine.description if isinstance(machine.description, FatTreeSpec) else None
    theirs_of: dict[str, str] = {}
    for line in golden["routes"]:  # type: ignore[attr-defined]
        src, dst, latency, *theirs = line.split()
        ours, own_latency = built.route(int(src), int(dst))
        # A link stands in our routes once; SimGrid's fat trees name it twice in a message within a host.
        assert len(theirs) == len(set(theirs)) or src == dst
        theirs = list(dict.fromkeys(theirs))
        assert len(ours) == len(theirs), line
        assert [ends(name, tree) for name in ours] == [simgrid_ends(name) for name in theirs], line
        assert own_latency == float(latency)
        for name, other in zip(ours, theirs, strict=True):
            # Parallel cables have the same ends: the names must correspond one to one.
            assert theirs_of.setdefault(name, other) == other
    assert len(set(theirs_of.values())) == len(theirs_of)
    hosts = built.host_count
    missing = hosts * hosts - len(golden["routes"])  # type: ignore[arg-type]
    # SimGrid refuses messages within a host of a torus without a loopback or limiter.
    description = machine.description
    has_own = tree is not None or description.loopback_bw is not None or description.limiter is not None
    assert missing == (0 if has_own else hosts)
