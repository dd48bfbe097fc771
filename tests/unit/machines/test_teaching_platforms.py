"""SimGrid's teaching files: bypass routes, pstates of 0, host speeds, what stands before the declaration."""

from __future__ import annotations

from pathlib import Path

import pytest

import labkit as lk
from labkit.errors import PlatformError
from tests.support.refusals import raises_code

HEAD = "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"


def machine(folder: Path, inside: str, before: str = "") -> lk.Platform:
    path = folder / "m.xml"
    path.write_text(f'{before}{HEAD}<platform version="4.1">\n{inside}\n</platform>\n')
    return lk.platform(path)


def routes(found: lk.Platform) -> dict[tuple[str, str], list[str]]:
    built, name = found.build(found.hosts), found.description.host_name
    pairs = [(a, b) for a in range(found.hosts) for b in range(found.hosts) if a != b]
    return {(name(a), name(b)): built.route(a, b)[0] for a, b in pairs}


#: as in SimGrid's examples/platforms/bypassRoute.xml; the routes are those that SimGrid 3.32 prints
FLOYD = """
<zone id="big" routing="Dijkstra">
  <zone id="one" routing="Full">
    <host id="a" speed="1Gf"/><link id="al" bandwidth="1GBps" latency="5us"/><router id="ag"/>
    <route src="a" dst="ag"><link_ctn id="al"/></route>
  </zone>
  <zone id="two" routing="Floyd">
    <host id="b1" speed="1Gf"/><host id="b2" speed="1Gf"/><router id="r"/><router id="s"/>
    <link id="l1" bandwidth="1GBps" latency="5us"/><link id="l2" bandwidth="1GBps" latency="5us"/>
    <link id="l4" bandwidth="1GBps" latency="5us"/><link id="l5" bandwidth="1GBps" latency="5us"/>
    <route src="r" dst="b1"><link_ctn id="l1"/></route>
    <route src="r" dst="b2"><link_ctn id="l2"/></route>
    <route src="s" dst="b1"><link_ctn id="l4"/></route>
    <bypassRoute src="b1" dst="b2"><link_ctn id="l4"/><link_ctn id="l5"/></bypassRoute>
  </zone>
  <link id="back" bandwidth="1GBps" latency="5us"/>
  <zoneRoute src="one" dst="two" gw_src="ag" gw_dst="r"><link_ctn id="back"/></zoneRoute>
</zone>"""
#: as in bypassZoneRoute.xml
ZONES = """
<zone id="all" routing="Full">
  <cluster id="c1" prefix="" suffix="" radical="1" speed="1Gf" bw="125MBps" lat="50us"/>
  <cluster id="c2" prefix="" suffix="" radical="2" speed="1Gf" bw="125MBps" lat="50us"/>
  <link id="usual" bandwidth="1GBps" latency="500us"/><link id="short" bandwidth="1GBps" latency="5us"/>
  <zoneRoute src="c1" dst="c2" gw_src="c1_router" gw_dst="c2_router"><link_ctn id="usual"/></zoneRoute>
  <{word} src="c1" dst="c2" gw_src="c1_router" gw_dst="c2_router"><link_ctn id="short"/></{word}>
</zone>"""


def test_a_bypass_replaces_one_route_of_one_direction(tmp_path):
    found = routes(machine(tmp_path, FLOYD))
    assert found["b1", "b2"] == ["l4", "l5"]
    assert found["b2", "b1"] == ["l2", "l1"]
    assert found["a", "b2"] == ["al", "back", "l2"]
    again = tmp_path / "again.xml"
    again.write_text(machine(tmp_path, FLOYD).description.xml())
    assert routes(lk.platform(again)) == found


@pytest.mark.parametrize("word", ["bypassASroute", "bypassZoneRoute"])
def test_a_bypass_between_zones(tmp_path, word):
    found = routes(machine(tmp_path, ZONES.format(word=word)))
    assert found["1", "2"] == ["c1: up 0", "short", "c2: down 0"]
    assert found["2", "1"] == ["c2: up 0", "usual", "c1: down 0"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('<link_ctn id="l4"/><link_ctn id="l5"/></by', "</by", "b1"),
        ('src="b1" dst="b2"><link_ctn id="l4"/>', 'src="b1" dst="a"><link_ctn id="l4"/>', None),
        ('<link_ctn id="l5"/></by', '<link_ctn id="l9"/></by', "'l9'"),
        ('<bypassRoute src="b1" dst="b2"', '<bypassRoute src="b1" dst="b7"', "'b7'"),
    ],
)
def test_a_bypass_that_cannot_be_is_refused(tmp_path, old, new, said):
    if said is None:
        machine(tmp_path, FLOYD.replace(old, new))
        return
    with raises_code(PlatformError, "malformed-line", said):
        machine(tmp_path, FLOYD.replace(old, new))


def test_two_bypasses_of_a_pair_are_refused(tmp_path):
    one = FLOYD[FLOYD.index("<bypassRoute") : FLOYD.index("</bypassRoute>")] + "</bypassRoute>"
    with raises_code(PlatformError, "malformed-line"):
        machine(tmp_path, FLOYD.replace(one, one + one))


CLUSTER = '<cluster id="c" prefix="n" suffix="" radical="0-7" speed="1Gf" bw="125MBps" lat="50us"/>'
ZONE = f'<zone id="z" routing="Full">{CLUSTER}</zone>'


@pytest.mark.parametrize("before", ["\n\n", "<!-- eight -->\n", "\ufeff<!-- a\n b -->  <!-- c -->\n\n", "  "])
def test_what_stands_before_the_declaration(tmp_path, before):
    assert machine(tmp_path, ZONE, before).hosts == 8
    with raises_code(PlatformError, "malformed-line", f"line {4 + before.count(chr(10))}", "<hots>"):
        machine(tmp_path, "<zone id='z' routing='Full'><hots/></zone>", before)


def test_anything_else_before_it_is_refused(tmp_path):
    for before in ("x\n", "<!-- a -- b", "<a/>\n"):
        with raises_code(PlatformError, "malformed-line"):
            machine(tmp_path, ZONE, before)


def test_the_speed_of_this_host_scales_measured_computation(tmp_path):
    def program(comm):
        total = sum(range(300_000))
        comm.barrier()
        return total

    config = '<config id="General"><prop id="smpi/host-speed" value="{}"/></config>'
    found = {}
    for speed in ("1Gf", "100Gf"):
        on = machine(tmp_path, config.format(speed) + ZONE)
        assert on.hosts == 8
        run = lk.run(program, 2, on, compute="measured")
        assert lk.run(program, 2, on, compute=run).makespan_s == run.makespan_s
        found[speed] = run.makespan_s
    assert found["100Gf"] > 10 * found["1Gf"]
    with raises_code(PlatformError, "malformed-line", "'smpi/host-speed'", "'fast'"):
        machine(tmp_path, config.format("fast") + ZONE)


def test_settings_that_change_no_time_are_named(tmp_path):
    config = '<config id="General"><prop id="smpi/privatization" value="dlopen"/></config>'
    found = machine(tmp_path, config + ZONE)
    assert "config smpi/privatization" in dict(found.facts)["read over"]


def test_a_pstate_may_be_off_but_not_the_one_that_is_used(tmp_path):
    hosts = '<host id="a" speed="100.0Mf,50.0Mf,0f" pstate="{}"/><host id="b" speed="1Gf, 0 "/>'
    zone = (
        '<zone id="z" routing="Full">'
        + hosts
        + ('<link id="l" bandwidth="1GBps"/><route src="a" dst="b"><link_ctn id="l"/></route></zone>')
    )
    assert machine(tmp_path, zone.format(1)).description.speed == 50e6
    with raises_code(PlatformError, "malformed-line"):
        machine(tmp_path, zone.format(2))


def test_a_host_of_a_cluster_zone_needs_its_links(tmp_path):
    zone = (
        '<zone id="c" routing="Cluster"><host id="n0" speed="1Gf"/><host id="n1" speed="1Gf"/>'
        '<link id="l" bandwidth="1e9Bps"/><host_link id="n0" up="l" down="l"/>'
        '<router id="sw"/><backbone id="bb" bandwidth="1e10Bps" latency="5us"/></zone>'
    )
    with raises_code(PlatformError, "malformed-line", "'n1'", "<host_link>"):
        machine(tmp_path, zone)


def test_a_deployment_is_named(tmp_path):
    for word in ("actor", "process"):
        with raises_code(PlatformError, "malformed-file"):
            machine(tmp_path, f'<{word} host="a" function="f"><argument value="1"/></{word}>')


NAMED = (
    '<zone id="z" routing="Full"><host id="{0}" speed="1Gf"/><host id="{1}" speed="1Gf"/>'
    '<link id="l" bandwidth="1GBps"/><route src="{0}" dst="{1}"><link_ctn id="l"/></route></zone>'
)


def test_hosts_by_any_name(tmp_path):
    def program(comm):
        from labkit import MPI

        return MPI.Get_processor_name()

    hosts = tmp_path / "hosts.txt"
    for names in (("node 0", "node 1"), ("7", "0"), ("a:1", "b:2")):
        on = machine(tmp_path, NAMED.format(*names))
        hosts.write_text(f"{names[1]}\n{names[0]}:2\n")
        run = lk.run(program, 3, on, mapping=hosts)
        assert run.results == [names[1], names[0], names[0]]
        assert lk.run(program, 2, on, mapping=list(names[::-1])).results == [names[1], names[0]]
    on = machine(tmp_path, NAMED.format("7", "0"))
    hosts.write_text("1\n")
    with raises_code(PlatformError, "unknown-name"):
        lk.run(program, 1, on, mapping=hosts)
    with raises_code(PlatformError, "unknown-name", "'node 9'"):
        lk.run(program, 1, machine(tmp_path, NAMED.format("node 0", "node 1")), mapping=["node 9"])
    assert lk.run(program, 2, "star:2").results == ["host-0", "host-1"]
