"""SimGrid's grammar: each element and attribute is used, refused by name, or reported as read over."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import PlatformError
from labkit.machines.xml.reader import read_platform
from tests.support.refusals import raises_code

HOSTS = (
    '<host id="a" speed="1Gf,2Gf" {host}>{in_host}</host><host id="b" speed="1Gf"/>'
    '<link id="l" bandwidth="1MBps" latency="1us" {link}>{in_link}</link>'
)
ROUTE = '<route src="a" dst="b" {route}><link_ctn id="l" {ctn}/></route>'
FLAT = f'{{before}}<zone id="z" routing="Full">{HOSTS}{{inner}}{ROUTE}</zone>{{after}}'
ZONES = (
    '<zone id="z" routing="Full"><zone id="x" routing="Full"><host id="a" speed="1Gf"/></zone>'
    '<zone id="y" routing="Full"><host id="b" speed="1Gf"/></zone>'
    '<link id="l" bandwidth="1MBps"/><link id="k" bandwidth="2MBps"/>{inner}'
    '<zoneRoute src="x" dst="y" gw_src="a" gw_dst="b" {route}><link_ctn id="l"/></zoneRoute></zone>'
)
ENDS = 'src="x" dst="y" gw_src="a" gw_dst="b"'
CLUSTER = '<cluster id="c" prefix="n" suffix="" radical="0-3" speed="1Gf" bw="1MBps" lat="1us" {cluster}/>'
CABINET = (
    '<zone id="z" routing="Cluster"><cabinet id="c" prefix="n" suffix="" radical="0-3" speed="1Gf" '
    'bw="1MBps" lat="1us" {cabinet}/><backbone id="bb" bandwidth="1GBps" latency="1us" {backbone}/></zone>'
)
CONNECT = '<trace_connect trace="{}" element="{}" kind="{}"/>'
FIELDS = (
    "before", "after", "inner", "host", "in_host", "link", "in_link", "route", "ctn", "cluster", "cabinet",
    "backbone",
)  # fmt: skip

#: where the text goes, the platform, the text, and a part of the refusal; "": it is used; "listed": read over
CASES: list[tuple[str, str, str, str]] = [
    ("host", FLAT, 'core="3"', ""),
    ("host", FLAT, 'pstate="1"', ""),
    ("host", FLAT, 'coordinates="1 2 3"', "listed"),
    *(("host", FLAT, f'{name}="f"', name) for name in ("speed_file", "availability_file", "state_file")),
    ("host", FLAT, 'power="1"', "power"),
    ("in_host", FLAT, '<prop id="k" value="v"/>', ""),
    ("in_host", FLAT, '<disk id="d" read_bw="1MBps" write_bw="1MBps"/>', "listed"),
    ("in_host", FLAT, '<mount storageId="s" name="m"/>', "listed"),
    ("in_host", FLAT, '<model_prop id="k" value="v"/>', "listed"),
    ("in_host", FLAT, "text", "text"),
    ("link", FLAT, 'sharing_policy="FATPIPE"', ""),
    ("link", FLAT, 'sharing_policy="WIFI"', "WIFI"),
    *(("link", FLAT, f'{name}="f"', name) for name in ("bandwidth_file", "latency_file", "state_file")),
    ("in_link", FLAT, '<prop id="k" value="v"/>', ""),
    ("route", FLAT, 'symmetrical="maybe"', "symmetrical"),
    ("ctn", FLAT, 'direction="SIDE"', "SIDE"),
    ("route", ZONES, 'symmetrical="NO"', ""),
    ("inner", ZONES, f'<bypassZoneRoute {ENDS}><link_ctn id="k"/></bypassZoneRoute>', ""),
    ("inner", ZONES, f'<bypassASroute {ENDS}><link_ctn id="k"/></bypassASroute>', ""),
    ("inner", FLAT, '<bypassRoute src="b" dst="a"><link_ctn id="l"/><link_ctn id="l"/></bypassRoute>', ""),
    ("inner", FLAT, '<router id="r"/>', ""),
    ("inner", FLAT, '<router id="r" coordinates="1 2 3"/>', "listed"),
    ("inner", FLAT, '<prop id="k" value="v"/>', ""),
    ("inner", FLAT, '<storage_type id="s" size="1"/>', "listed"),
    ("inner", FLAT, '<storage id="s" typeId="t" attach="a"/>', "listed"),
    ("inner", FLAT, '<include file="f.xml"/>', "include"),
    ("inner", FLAT, '<peer id="p" speed="1Gf" bw_in="1MBps" bw_out="1MBps"/>', "peer"),
    ("inner", FLAT, '<trace id="t" periodicity="1">0 1</trace>', "trace"),
    ("inner", FLAT, f"<trace id='t'>0 .5</trace>{CONNECT.format('t', 'a', 'SPEED')}", ""),
    ("inner", FLAT, f"<trace id='t' periodicity='9'>0 9</trace>{CONNECT.format('t', 'l', 'BANDWIDTH')}", ""),
    ("inner", FLAT, f"<trace id='t'>0 9</trace>{CONNECT.format('t', 'l', 'LATENCY')}", ""),
    ("inner", FLAT, f"<trace id='t'>0 9</trace>{CONNECT.format('t', 'l', 'LINK_AVAIL')}", "LINK_AVAIL"),
    ("inner", FLAT, f"<trace id='t'>0 9</trace>{CONNECT.format('t', 'x', 'SPEED')}", "'x'"),
    ("inner", FLAT, f"<trace id='t'>3 1 2</trace>{CONNECT.format('t', 'a', 'SPEED')}", "3 1 2"),
    ("inner", FLAT, f"<trace id='t'>3 1\n2 1</trace>{CONNECT.format('t', 'a', 'SPEED')}", "rise"),
    ("inner", FLAT, f"<trace id='t'>0 -1</trace>{CONNECT.format('t', 'a', 'SPEED')}", "at least 0"),
    ("inner", FLAT, f"<trace id='t' file='../f'/>{CONNECT.format('t', 'a', 'SPEED')}", "../f"),
    ("inner", FLAT, CONNECT.format("t", "a", "SPEED"), "trace_connect"),
    ("inner", FLAT, '<host_link id="a" up="l" down="l"/>', "host_link"),
    ("inner", FLAT, '<backbone id="bb" bandwidth="1GBps" latency="1us"/>', "backbone"),
    ("inner", FLAT, "<cpu/>", "cpu"),
    ("after", FLAT, '<actor host="a" function="f"><argument value="1"/></actor>', "listed"),
    ("after", FLAT, '<process host="a" function="f" start_time="3"/>', "listed"),
    ("before", FLAT, '<random id="r" min="1" max="2" mean="1" std_deviation="1"/>', "listed"),
    ("before", FLAT, '<config><prop id="network/model" value="CM02"/></config>', ""),
    ("before", FLAT, '<config><prop id="tracing" value="yes"/></config>', "listed"),
    ("before", FLAT, '<config name="General"/>', "name"),
    ("before", FLAT, '<config><prop id="network/model" value="CM02" unit="1"/></config>', "unit"),
    ("before", FLAT, '<config><host id="c" speed="1Gf"/></config>', "host"),
    ("cluster", CLUSTER, 'core="2"', ""),
    ("cluster", CLUSTER, 'sharing_policy="FATPIPE"', ""),
    ("cluster", CLUSTER, 'topology="TORUS" topo_parameters="2,2"', ""),
    ("cluster", CLUSTER, 'topology="FAT_TREE" topo_parameters="2;2,2;1,2;1,1"', ""),
    ("cluster", CLUSTER, 'topology="DRAGONFLY" topo_parameters="2,1;1,1;2,1;1"', ""),
    ("cluster", CLUSTER, 'topology="RING" topo_parameters="2,2"', "RING"),
    ("cluster", CLUSTER, 'topo_parameters="2,2"', "listed"),
    ("cluster", CLUSTER, 'bb_bw="1GBps" bb_lat="3us"', ""),
    ("cluster", CLUSTER, 'bb_bw="1GBps" bb_sharing_policy="FATPIPE"', ""),
    ("cluster", CLUSTER, 'router_id="r"', ""),
    ("cluster", CLUSTER, 'limiter_link="1MBps"', ""),
    ("cluster", CLUSTER, 'loopback_bw="1GBps" loopback_lat="1us"', ""),
    ("cluster", CLUSTER, 'loopback_lat="1us"', "loopback_lat"),
    ("cluster", CLUSTER, 'availability_file="f"', "availability_file"),
    ("cabinet", CABINET, 'core="2"', "core"),
    ("backbone", CABINET, 'sharing_policy="FATPIPE"', "sharing_policy"),
]  # fmt: skip


def _content(one: Any, seen: tuple[int, ...] = ()) -> Any:
    """Return what a description holds, without places in the file."""
    if one is None or isinstance(one, str | int | float):
        return one
    if id(one) in seen:
        return "again"
    seen = (*seen, id(one))
    if isinstance(one, list | tuple | set | frozenset):
        parts = [_content(part, seen) for part in one]
        return parts if isinstance(one, list | tuple) else sorted(map(repr, parts))
    if not isinstance(one, dict):
        slots = [name for cls in type(one).__mro__ for name in getattr(cls, "__slots__", ())]
        own = {name: getattr(one, name) for name in slots if hasattr(one, name)}
        return type(one).__name__, _content({**own, **getattr(one, "__dict__", {})}, seen)
    return [(key, _content(value, seen)) for key, value in one.items() if "place" not in str(key)]


def _read(tmp_path: Any, form: str, where: str, text: str) -> tuple[Any, list[str]]:
    path = tmp_path / "platform.xml"
    filled = form.format(**{**dict.fromkeys(FIELDS, ""), where: text})
    path.write_text(f'<?xml version="1.0"?>\n<platform version="4.1">\n{filled}\n</platform>\n')
    spec, _, read_over, _ = read_platform(path)
    return _content(spec), read_over


@pytest.mark.parametrize(("where", "form", "text", "what"), CASES)
def test_nothing_is_passed_over_in_silence(where, form, text, what, tmp_path) -> None:
    before = _read(tmp_path, form, where, "")
    if what not in ("", "listed"):
        with raises_code(PlatformError, "malformed-line", what):
            _read(tmp_path, form, where, text)
        return
    spec, read_over = _read(tmp_path, form, where, text)
    assert (spec != before[0]) or what == "listed"
    assert (read_over != []) == (what == "listed")


@pytest.mark.parametrize("routing", ["Floyd", "Dijkstra", "DijkstraCache", "Vivaldi", "Wifi", "Ring"])
def test_routings_are_used_or_refused(routing, tmp_path) -> None:
    form = FLAT.replace('routing="Full"', f'routing="{routing}"')
    if routing in ("Vivaldi", "Wifi", "Ring"):
        with raises_code(PlatformError, "malformed-line", routing):
            _read(tmp_path, form, "inner", "")
    else:
        assert _read(tmp_path, form, "inner", "") != _read(tmp_path, FLAT, "inner", "")
