"""Machines in which some hosts have no way to each other: read, and refused where ranks need it."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit import plot
from labkit.errors import PlatformError
from tests.support.refusals import raises_code


@pytest.fixture
def fork():
    """Hosts a - b - c, where a and c are not joined, and d alone."""
    zone = lk.Zone("fork", "full")
    for name in "abcd":
        zone.host(name)
    zone.link("ab", "1Gbps", "10us")
    zone.link("bc", "1Gbps", "30us")
    zone.route("a", "b", ["ab"])
    zone.route("b", "c", ["bc"])
    return lk.platform(zone)


def total(comm):
    return comm.allreduce(comm.rank)


def test_ranks_run_where_all_their_hosts_are_joined(fork):
    assert lk.run(total, 2, fork, mapping=["c", "b"]).results == [1, 1]
    assert lk.run(total, 2, fork).results == [1, 1]


@pytest.mark.parametrize("hosts", [["a", "b", "c"], ["a", "d"], ["d", "b"]])
def test_a_run_is_refused_before_it_begins(fork, hosts):
    with raises_code(PlatformError, "not-connected", "'fork'"):
        lk.run(total, len(hosts), fork, mapping=hosts)


def test_it_says_so_and_can_be_looked_at(fork):
    assert "there is no route from 'a' to 'c'" in repr(fork)
    assert fork.diameter.links == 1
    assert fork.diameter.latency_s == pytest.approx(30e-6)
    plot.topology(fork)
    with raises_code(PlatformError, "not-connected", "'a'", "'c'"):
        plot.topology(fork, route=(0, 2))


def test_a_graph_must_be_connected():
    with raises_code(PlatformError, "not-connected", "'a'", "'c'"):
        lk.graph([("a", "b"), ("c", "d")])


def test_simgrids_names_of_split_links_are_read(tmp_path):
    """SimGrid makes two links of a SPLITDUPLEX one and calls them NAME_UP and NAME_DOWN."""
    path = tmp_path / "p.xml"
    text = """<?xml version='1.0'?>
<platform version="4.1"><zone id="z" routing="Full">
<host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>
<link id="l" bandwidth="1Gbps" latency="10us" sharing_policy="SPLITDUPLEX"/>
<route src="a" dst="b" symmetrical="NO"><link_ctn id="l" direction="UP"/></route>
<route src="b" dst="a" symmetrical="NO"><link_ctn id="l_DOWN"/></route>
</zone></platform>"""
    path.write_text(text)
    built = lk.platform(path).build(2)
    assert built.route(0, 1)[0] == ["l up"]
    assert built.route(1, 0)[0] == ["l down"]
    path.write_text(text.replace("l_DOWN", "m_DOWN"))
    with raises_code(PlatformError, "malformed-line", "'m_DOWN'"):
        lk.platform(path)
