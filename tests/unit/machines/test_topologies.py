"""Tori and fat trees as specifications: what is read and refused, how they grow, what they show."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines.spec import parse_spec
from labkit.machines.topologies.fat_tree import FatTreeSpec, grown_tree
from labkit.machines.topologies.torus import TorusSpec, near_cube
from labkit.machines.xml.writer import host_file, platform_xml
from tests.support.refusals import raises_code


def test_sizes_and_options_are_read_and_written() -> None:
    torus = parse_spec(
        "torus:8x4x2,bw=10Gbps,lat=500ns,limiter=2GBps,loopback_bw=6GBps,sharing=shared,cores=4"
    )
    assert isinstance(torus, TorusSpec)
    assert (torus.sizes, torus.hosts, torus.bw, torus.limiter) == ((8, 4, 2), 64, 1.25e9, 2e9)
    tree = parse_spec("fattree:4x4:1x2:1x2,speed=2Gf,model=smpi")
    assert isinstance(tree, FatTreeSpec)
    assert (tree.down, tree.up, tree.cables, tree.hosts) == ((4, 4), (1, 2), (1, 2), 16)
    for spec in (torus, tree):
        assert parse_spec(str(spec)) == spec
    assert str(parse_spec("fattree,lat=2us")) == "fattree,lat=2us"
    assert lk.platform("torus:4x4x4").build(64).host_count == 64


@pytest.mark.parametrize(
    ("spec", "place", "says"),
    [
        ("torus:", 7, "whole number from 1 on"),
        ("torus:4x0x4", 9, "whole number from 1 on"),
        ("torus:4x-1", 9, "for example 8x8x8"),
        ("torus:4x4x", 11, "leave ':' out"),
        ("torus:4,4", 9, "NAME=VALUE"),
        ("torus:2048x1024", 1, "2,097,152 hosts; at most 2^20"),
        ("torus:" + "x".join(["2"] * 20), 1, "41,943,040 links"),
        ("torus:9999999999", 7, "10 digits"),
        ("torus:4x4,bb_bw=1GBps", 11, "no backbone"),
        (
            "torus:4x4,bb_wb=1GBps",
            11,
            "'bb_wb' is not known; allowed: bw, lat, speed, cores, sharing, limiter",
        ),
        ("torus:4x4,loopback_lat=1us", 1, "loopback_bw"),
        ("fattree:4x4", 9, "1 of 3 lists"),
        ("fattree:", 9, "1 of 3 lists"),
        ("fattree:4x4:1x2:1x2:1", 9, "4 of 3 lists"),
        ("fattree:4x4:1:1x2", 13, "up has 1 levels, down has 2"),
        ("fattree:4x4:1x2:1x0", 19, "whole number from 1 on"),
        ("fattree:4x4:ax2:1x2", 13, "up: 'a' is not a count"),
        ("fattree:4x4:1x2:1x2,bb_lat=1us", 21, "a fattree has no backbone"),
        ("fattree:1024x1025:1x1:1x1", 1, "at most 2^20"),
        ("fattree:1x1:1x999999999:1x1", 1, "links"),
        ("star:1048577", 1, "at most 2^20"),
    ],
)
def test_refusals_point_at_the_place_and_name_what_is_allowed(spec: str, place: int, says: str) -> None:
    with pytest.raises(PlatformError) as caught:
        lk.platform(spec)
    message = str(caught.value)
    assert says in message
    assert f"at character {place}:" in message
    assert message.splitlines()[-1] == " " * (4 + place - 1) + "^"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"down": (4,)}, ("count-mismatch",)),
        ({"down": (4, 4), "up": (1, 1), "cables": (1,)}, ("count-mismatch",)),
        ({"down": (4,), "up": (0,), "cables": (1,)}, ("out-of-range", "1")),
    ],
)
def test_a_tree_built_by_hand_is_checked_too(
    arguments: dict[str, tuple[int, ...]], wanted: tuple[str, ...]
) -> None:
    with raises_code(PlatformError, *wanted):
        FatTreeSpec(**arguments)  # type: ignore[arg-type]
    with raises_code(PlatformError, "out-of-range"):
        TorusSpec(sizes=())


@pytest.mark.parametrize("hosts", [*range(1, 130), 1000, 1023, 1024, 1025, 32_768, 32_769, 1_000_000, 2**20])
def test_unsized_machines_grow_to_what_is_needed_and_not_far_beyond(hosts: int) -> None:
    sizes = near_cube(hosts)
    assert max(sizes) <= 2 * min(sizes)
    assert hosts <= math.prod(sizes) <= max(2 * hosts, 8)
    down, up, cables = grown_tree(hosts)
    assert hosts <= math.prod(down) < hosts + math.prod(down[:-1])  # the last subtree is needed
    assert set(cables) == {1}
    assert up == (1, *down[:-1])  # full bisection: as many cables up as down
    assert max(down[0] + (*up, 0)[1], 2 * down[0]) <= 64
    assert len(down) == (2 if hosts <= 1024 else 3 if hosts <= 32_768 else 4)
    if hosts & (hosts - 1) == 0:
        assert math.prod(sizes) == math.prod(down) == hosts


def test_growing_machines_are_the_same_every_time_and_hold_the_ranks() -> None:
    for name in ("torus", "fattree"):
        machine = lk.platform(f"{name},cores=2")
        assert machine.hosts is None
        assert machine.capacity is None
        for ranks in (1, 2, 3, 7, 64, 100, 1000):
            hosts = machine.hosts_for(ranks)
            assert hosts >= -(-ranks // 2)
            built = machine.build(ranks)
            assert built.host_count == hosts == machine.sized(ranks).hosts
            assert built.rank_count == ranks
    assert lk.platform("torus").sized(64).spec == "torus:4x4x4"
    assert lk.platform("fattree").sized(256).spec == "fattree:16x16:1x16:1x1"
    with raises_code(PlatformError, "out-of-range", "2^20"):
        lk.platform("torus").hosts_for(2**20 + 1)
    with raises_code(PlatformError, "out-of-range", "2^20"):
        lk.platform("fattree").hosts_for(2**20 + 1)


def test_more_ranks_than_it_holds_are_refused() -> None:
    with raises_code(PlatformError, "too-many-ranks", "65", "4", "cores=2"):
        lk.platform("torus:4x4x4").build(65)
    with raises_code(PlatformError, "too-many-ranks", "17"):
        lk.platform("fattree:4x4:1x2:1x2").sized(17)


def test_they_show_themselves() -> None:
    rows = dict(lk.platform("torus:8x8x4,limiter=2GBps")._rows())
    assert rows["hosts"] == "8x8x4 = 256"
    assert rows["diameter"] == "10 links, 10us"
    assert rows["cables"] == "768"
    assert rows["bisection"] == "80GBps each way (64 cables across a slice)"
    assert rows["limiter per host"] == "2GBps"
    # Two hosts are joined by the one cable in use, a ring by two across any cut.
    assert dict(lk.platform("torus:3")._rows())["bisection"].startswith("2.5GBps each way (2 cables")
    assert dict(lk.platform("torus:2x2")._rows())["bisection"].startswith("2.5GBps each way (2 cables")
    rows = dict(lk.platform("fattree:8x4:1x2:1x2,limiter=2GBps")._rows())
    assert rows["switches"] == "4 + 2 (from the hosts upwards)"
    assert rows["cables"] == "32 + 16 (from the hosts upwards)"
    assert rows["diameter"] == "4 links, 4us"
    assert rows["bisection"] == "10GBps each way (8 cables)"
    assert rows["limiter per node"] == "2GBps"
    assert "as many as the ranks need" in lk.platform("torus")._repr_html_()
    assert dict(lk.platform("star:5")._rows())["bisection"] == "2.5GBps each way (2 cables of the hosts)"


def test_the_xml_wraps_the_cluster_in_a_zone() -> None:
    for spec, topology, parameters in (
        ("torus:4x3x2", "TORUS", "4,3,2"),
        ("fattree:4x6:1x2:1x2", "FAT_TREE", "2;4,6;1,2;1,2"),
        ("torus", "TORUS", "4,3,2"),
    ):
        text = platform_xml(lk.platform(spec), 24)
        zone = ElementTree.fromstring(text.partition("?>")[2]).find("zone")
        assert zone is not None
        assert zone.attrib["routing"] == "Full"
        cluster = zone.find("cluster")
        assert cluster is not None
        assert (cluster.attrib["topology"], cluster.attrib["topo_parameters"]) == (topology, parameters)
        hosts = lk.platform(spec).hosts_for(24)
        assert cluster.attrib["radical"] == f"0-{hosts - 1}"
    assert host_file(lk.platform("torus:2x2,cores=2"), 3) == "host-0\nhost-0\nhost-1\n"
