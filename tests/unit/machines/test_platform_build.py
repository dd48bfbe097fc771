"""The engine's form of a machine, and SimGrid's: routes, placement, XML, smpirun's options."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines import models
from labkit.machines.xml.writer import host_file, platform_xml, smpirun_options
from tests.support.refusals import raises_code

FULL = (
    "star:4,bw=1Gbps,lat=24us,speed=16.7Gf,cores=2,bb_bw=10Gbps,bb_lat=1us,limiter=187.5MBps,"
    "loopback_bw=6GBps,loopback_lat=1.5ns"
)


def test_a_route_goes_up_over_the_backbone_and_down() -> None:
    built = lk.platform(FULL).build(8)
    links, latency = built.route(0, 3)
    assert len(links) == len(set(links)) == 5  # limiter, up, backbone, down, limiter
    assert latency == pytest.approx(2 * 24e-6 + 1e-6, rel=1e-15)
    loopback, within = built.route(2, 2)
    assert len(loopback) == 1
    assert within == 1.5e-9


def test_without_a_loopback_a_message_within_a_host_goes_up_and_down() -> None:
    built = lk.platform("star:2,cores=2").build(4)
    links, latency = built.route(1, 1)
    assert (len(links), latency) == (2, 2e-6)


def test_both_directions_are_one_link_when_shared() -> None:
    built = lk.platform("star:2,sharing=shared").build(2)
    assert set(built.route(0, 1)[0]) == set(built.route(1, 0)[0])
    split = lk.platform("star:2").build(2)
    assert not set(split.route(0, 1)[0]) & set(split.route(1, 0)[0])


def test_the_ranks_are_placed_and_the_machine_keeps_its_size() -> None:
    built = lk.platform(FULL).build(3)
    assert (built.host_count, built.rank_count, built.rank_hosts) == (4, 3, [0, 0, 1])
    assert built.speed(2) == 16.7e9
    assert lk.platform("star").build(5).host_count == 5
    with raises_code(PlatformError, "too-many-ranks"):
        lk.platform(FULL).build(9)
    with pytest.raises(ValueError, match="no such host"):
        built.route(0, 4)


def test_the_engine_gets_the_numbers_of_the_model() -> None:
    lab = models.get("lab", detached_below_bytes=1000)
    built = lab.build()
    assert built.name == lab.name
    for name in ("latency_factor", "bandwidth_factor", "send_overhead", "isend_overhead", "recv_overhead"):
        assert tuple(map(tuple, getattr(built, name))) == getattr(lab, name)
    assert (built.detached_below_bytes, built.cross_traffic, built.test_s) == (1000, True, 1e-4)


def test_the_xml_says_what_the_specification_says() -> None:
    text = platform_xml(lk.platform(FULL), 8)
    cluster = ElementTree.fromstring(text.partition("?>")[2]).find("cluster")
    assert cluster is not None
    assert cluster.attrib == {
        "id": "star", "prefix": "host-", "suffix": "", "radical": "0-3", "speed": "16700000000.0f",
        "core": "2",
        "bw": "125000000.0Bps", "lat": "2.4e-05s", "sharing_policy": "SPLITDUPLEX",
        "bb_bw": "1250000000.0Bps",
        "bb_lat": "1e-06s", "bb_sharing_policy": "SHARED", "limiter_link": "187500000.0Bps",
        "loopback_bw": "6000000000.0Bps", "loopback_lat": "1.5e-09s",
    }  # fmt: skip
    assert host_file(lk.platform(FULL), 3) == "host-0\nhost-0\nhost-1\n"
    assert 'radical="0-6"' in platform_xml(lk.platform("star"), 7)


def test_smpirun_is_told_of_the_model_by_name_and_of_what_differs() -> None:
    assert "network/model:LV08" in smpirun_options("lv08")
    assert {"network/model:CM02", "network/crosstraffic:no", "network/TCP-gamma:0"} <= set(
        smpirun_options("raw")
    )
    changed = smpirun_options(models.get("smpi", cross_traffic=False, latency_factor=[[0, 2.5]], wtime_s=0.0))
    assert {
        "network/model:SMPI",
        "network/crosstraffic:no",
        "smpi/lat-factor:0:2.5",
        "smpi/wtime:0.0",
    } <= set(changed)
    starts = ("smpi/os:", "smpi/or:", "smpi/ois:")
    lab = [item for item in smpirun_options("lab") if item.startswith(starts)]
    assert len(lab) == 3
    assert "smpi/os:0:8.75118726019245e-06:7.09598480584951e-10;1420:" in lab[0]
