"""SimGrid's platform files, read: what they mean, what is refused, and where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines.quantities import parse_bandwidth, parse_speed, parse_time
from labkit.machines.topologies.star import StarSpec
from labkit.machines.xml.builder import radical
from labkit.machines.xml.writer import host_file, platform_xml
from labkit.machines.zones import ZonesSpec
from tests.support.refusals import raises_code

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
PAIR = """<platform version="4.1">
<zone id="all" routing="Full">
<host id="left" speed="2Gf" core="4"/>
<host id="right" speed="1Gf,3Gf" pstate="1"/>
<link id="cable" bandwidth="1Gbps" latency="10us" sharing_policy="SPLITDUPLEX"/>
<link id="wall" bandwidth="125MBps" latency="1us" sharing_policy="FATPIPE"/>
<route src="left" dst="right"><link_ctn id="cable" direction="UP"/><link_ctn id="wall"/></route>
</zone>
</platform>
"""
CLUSTER = """<platform version="4.1">
<cluster id="c" prefix="host-" suffix="" radical="0-3" speed="1Gf" bw="125MBps" lat="50us"/>
</platform>
"""


Read = Callable[..., lk.Platform]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_text(text: str, head: str = HEAD) -> lk.Platform:
        path = tmp_path / "p.xml"
        path.write_text(head + text, "utf-8")
        return lk.platform(path)

    return read_text


def test_hosts_links_and_routes_are_what_the_file_says(read: Read) -> None:
    machine = read(PAIR)
    built = machine.build(2)
    assert (machine.name, machine.hosts, machine.description.cores) == ("p", 2, 1)
    assert built.route(0, 1) == (["cable up", "wall"], pytest.approx(11e-6))
    assert built.route(1, 0) == (["wall", "cable down"], pytest.approx(11e-6))
    assert built.route(0, 0) == (["common loopback"], 0.0)
    assert (built.speed(0), built.speed(1)) == (2e9, 3e9)
    assert [machine.description.host_number(name) for name in ("right", "left", "host-0")] == [1, 0, None]


def test_a_cluster_alone_is_labkits_own(read: Read) -> None:
    machine = read(CLUSTER)
    assert machine.description == StarSpec(hosts=4, bw=1.25e8, lat=5e-5)
    assert machine.spec == "star:4,bw=125MBps,lat=50us"


def test_a_cluster_with_names_of_its_own_keeps_them(read: Read) -> None:
    machine = read(CLUSTER.replace('"host-"', '"n"').replace('"0-3"', '"7,10-12"'))
    assert isinstance(machine.description, ZonesSpec)
    assert host_file(machine, 4) == "n7\nn10\nn11\nn12\n"
    assert machine.description.host_number("n11") == 2
    assert machine.description.host_number("n8") is None
    assert machine.build(4).route(0, 3)[0] == ["c: up 0", "c: down 3"]


def test_clusters_in_zones_are_joined_by_their_routers(read: Read) -> None:
    def cluster(name: str, more: str) -> str:
        names = f'id="{name}" prefix="{name}-" suffix=".x" radical="0-7"'
        return f'<cluster {names} speed="1Gf" bw="1GBps" lat="1us" {more}/>'

    machine = read(
        f"""<platform version="4.1"><AS id="all" routing="Floyd">
        {cluster("star", 'bb_bw="2GBps" bb_lat="1us" limiter_link="3GBps"')}
        {cluster("torus", 'topology="TORUS" topo_parameters="2,2,2" router_id="door"')}
        {cluster("tree", 'topology="FAT_TREE" topo_parameters="1;8;1;1"')}
        <link id="ab" bandwidth="1Gbps" latency="1ms"/><link id="bc" bandwidth="1Gbps" latency="1ms"/>
        <ASroute src="star" dst="torus" gw_src="star-star_router.x" gw_dst="door">
        <link_ctn id="ab"/></ASroute>
        <zoneRoute src="torus" dst="tree" gw_src="door" gw_dst="tree-tree_router.x">
        <link_ctn id="bc"/></zoneRoute>
        </AS></platform>"""
    )
    built = machine.build(24)
    assert built.route(1, 20)[0] == ["star: limiter 1", "star: up 1", "star: backbone", "ab", "bc"]
    assert built.route(20, 1)[0] == ["bc", "ab", "star: backbone", "star: down 1", "star: limiter 1"]
    assert machine.description.host_number("tree-3.x") == 19


def test_old_cluster_zones_have_cabinets_a_backbone_and_host_links(read: Read) -> None:
    machine = read(
        """<platform version="4.1"><zone id="z" routing="Cluster">
        <host id="lone" speed="1Gf"/>
        <link id="a" bandwidth="1GBps" latency="1us"/><link id="b" bandwidth="1GBps" latency="2us"/>
        <host_link id="lone" up="a" down="b"/>
        <cabinet id="cab" prefix="n" suffix="" radical="1-2" speed="1Gf" bw="1GBps" lat="1us"/>
        <backbone id="bb" bandwidth="5GBps" latency="4us"/><router id="r"/>
        </zone></platform>"""
    )
    built = machine.build(3)
    assert built.route(0, 2) == (["a", "bb", "link_n2_DOWN"], pytest.approx(6e-6))
    assert built.route(1, 0)[0] == ["link_n1_UP", "bb", "b"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1Gbps", 1.25e8),
        ("125MBps", 1.25e8),
        ("8Kibps", 1024.0),
        ("1EBps", 1e18),
        ("100", 100.0),
        ("1e9Bps", 1e9),
    ],
)
def test_bandwidths_have_simgrids_units(text: str, value: float) -> None:
    assert parse_bandwidth(text, is_simgrid=True) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("50us", 5e-5), ("2m", 120.0), ("1h", 3600.0), ("1w", 604800.0), ("0", 0.0), ("0.5", 0.5)],
)
def test_latencies_have_simgrids_units(text: str, value: float) -> None:
    assert parse_time(text, is_simgrid=True) == value


@pytest.mark.parametrize(
    ("text", "value"), [("1Gf", 1e9), ("2gigaflops", 2e9), ("3", 3.0), ("1Ef", 1e18), ("1yottaflops", 1e24)]
)
def test_speeds_have_simgrids_units(text: str, value: float) -> None:
    assert parse_speed(text, is_simgrid=True) == value


@pytest.mark.parametrize(
    "text", ["", "fast", "1 furlong", "-3Gbps", "0Bps", "inf", "nanBps", "1e999Bps", "1" * 200]
)
def test_what_is_no_bandwidth_is_refused(text: str) -> None:
    with pytest.raises(PlatformError):
        parse_bandwidth(text, is_simgrid=True)


def test_a_radical_is_never_listed() -> None:
    assert radical("0-9,12, 20-29") == ((0, 9), (12, 12), (20, 29))
    for code, wrong in (
        ("out-of-range", ("0-999999999", "0-1048576")),
        ("malformed-specification", ("5-3",)),
        ("malformed-value", ("a-b", "1-2-3", "", "-1", "1,,2")),
    ):
        for bad in wrong:
            with raises_code(PlatformError, code, "radical"):
                radical(bad)


BACK = "<route src='right' dst='left'>"
#: what is replaced in PAIR, by what, the line that is named, and the value or name that is
REFUSED = [
    ('version="4.1"', 'version="3"', 3, "'3'"),
    ('routing="Full"', 'routing="Floid"', 4, "'Floyd'"),
    ('routing="Full"', 'routing="Vivaldi"', 4, "Vivaldi"),
    ("<zone ", "<room ", 4, "<room>"),
    ('core="4"', 'core="0"', 5, "core '0'"),
    ('core="4"', 'cores="4"', 5, "'cores'"),
    ('speed="2Gf" ', "", 5, "'speed'"),
    ('speed="2Gf"', 'speed="2Gb"', 5, "'Gb'"),
    ('pstate="1"', 'pstate="2"', 6, "pstate 2"),
    ('id="right"', 'id="left"', 6, "'left'"),
    ('id="right"', 'id=""', 6, "''"),
    ('"1Gbps"', '"0Gbps"', 7, "'0Gbps'"),
    ('"SPLITDUPLEX"', '"WIFI"', 7, "'WIFI'"),
    ('latency="10us"', 'latency="10us" bandwidth_file="f"', 7, "bandwidth_file"),
    ('id="wall" b', 'id="cable" b', 8, "'cable'"),
    ('dst="right"', 'dst="rigth"', 9, "'rigth'"),
    ('id="wall"/>', 'id="wal"/>', 9, "'wal'"),
    (' direction="UP"', "", 9, "SPLITDUPLEX"),
    ('direction="UP"', 'direction="LEFT"', 9, "'LEFT'"),
    ('dst="right">', 'dst="right" symmetrical="MAYBE">', 9, "'MAYBE'"),
    ("</route>", f"</route>{BACK}<link_ctn id='wall'/></route>", 9, "from right to left"),
    ("</route>", "</route><route src='right' dst='left'/>", 9, "from right to left"),
    ("</route>", "</route>words", 9, "'words'"),
    ("</route>", "</rout>", 9, "mismatched tag"),
    ("</route>", "</route><bypassRoute src='a' dst='b'/>", 9, "'a'"),
    ("</route>", "</route><include file='x'/>", 9, "<include>"),
    ("</route>", "</route><trace id='t' file='x'/>", 9, "file='x'"),
    ("</route>", "</route><zone id='in' routing='Full'/>", 9, "'all'"),
    ("</route>", "</route><backbone id='b' bandwidth='1GBps' latency='0'/>", 9, "<backbone>"),
    ("</zone>", "</zone><zone id='two' routing='Full'/>", 10, ""),
    ("<zone i", "<config><prop id='network/TCP-gamme' value='1'/></config><zone i", 4, "network/TCP-gamme"),
    ("</platform>", "", 12, "no element found"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "why"), REFUSED, ids=[new[:40] for _, new, _, _ in REFUSED])
def test_a_refusal_names_file_line_and_reason(read: Read, old: str, new: str, line: int, why: str) -> None:
    assert PAIR.count(old) >= 1
    with raises_code(PlatformError, "malformed-line", f"p.xml, line {line}: ", why):
        read(PAIR.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"0-3"', '"0-999999999"', "2^20"),
        (
            'lat="50us"',
            'lat="50us" topology="TORUS" topo_parameters="2,3"',
            "6 hosts",
        ),
        ('lat="50us"', 'lat="50us" topology="TORUS" topo_parameters="999999999,999999999"', "2^20"),
        ('lat="50us"', 'lat="50us" topology="FAT_TREE" topo_parameters="2;4;1;1"', "FAT_TREE"),
        ('lat="50us"', 'lat="50us" topology="HYPERCUBE"', "HYPERCUBE"),
        ('lat="50us"', 'lat="50us" bb_lat="1us"', "bb_bw"),
        ('lat="50us"', 'lat="50us" loopback_lat="1us"', "loopback_bw"),
        ('lat="50us"', 'lat="50us" sharing_policy="HALF"', "HALF"),
    ],
)
def test_clusters_that_cannot_be_are_refused(read: Read, old: str, new: str, why: str) -> None:
    with raises_code(PlatformError, "malformed-line", "p.xml, line 4: ", why):
        read(CLUSTER.replace(old, new))


def test_entities_are_never_read(read: Read) -> None:
    bomb = '<!DOCTYPE platform [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>\n'
    with raises_code(PlatformError, "malformed-line", "line 1", "'a'"):
        read(CLUSTER, bomb)
    file = '<!DOCTYPE platform [<!ENTITY f SYSTEM "file:///etc/passwd">]>\n'
    with raises_code(PlatformError, "malformed-line", "'f'"):
        read(CLUSTER.replace('"host-"', '"&f;"'), file)


def test_deep_files_are_refused(read: Read) -> None:
    deep = "".join(f'<zone id="z{i}" routing="None">' for i in range(200))
    with raises_code(PlatformError, "malformed-line", "100"):
        read(f'<platform version="4.1">{deep}')


@pytest.mark.parametrize("text", ["", "no xml", "<a/>", "\0\0", "<platform"])
def test_what_is_no_platform_is_refused(read: Read, text: str) -> None:
    with raises_code(PlatformError, "malformed-line", "p.xml"):
        read(text, "")


def test_an_empty_platform_is_refused_as_a_whole(read: Read) -> None:
    with raises_code(PlatformError, "malformed-file", "p.xml"):
        read('<platform version="4.1"/>', "")


def test_strange_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    for encoding in ("utf-7", "nonsense", "utf-16", "shift_jis", "rot13"):
        path.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>\n{CLUSTER}'.encode())
        with raises_code(PlatformError, "malformed-line", "p.xml"):
            lk.platform(path)
    path.write_bytes(('<?xml version="1.0" encoding="utf-16"?>' + CLUSTER).encode("utf-16"))
    assert lk.platform(path).hosts == 4


def test_what_no_message_feels_is_read_over_and_said(read: Read) -> None:
    machine = read(
        PAIR.replace(
            'core="4"/>', 'core="4"><prop id="a" value="b"/><disk id="d" read_bw="1Bps"><x/></disk></host>'
        )
        .replace("</zone>", "</zone><actor host='left' function='f'><argument value='1'/></actor>")
        .replace("<zone ", '<config><prop id="tracing" value="yes"/></config><zone ', 1)
    )
    assert ("read over", "<config tracing> (line 4), <disk> (line 5), <actor> (line 10)") in machine.facts
    assert "&lt;disk&gt; (line 5)" in machine._repr_html_()
    assert 'prop id="a" value="b"' in platform_xml(machine, 2)


def test_the_network_model_of_a_file_is_taken(read: Read) -> None:
    setting = '<config><prop id="network/model" value="LV08"/></config><zone '
    assert read(PAIR.replace("<zone ", setting, 1)).model.name == "lv08"
    assert read(PAIR).model.name == "lab"


def test_what_is_written_reads_back_as_the_same(read: Read, tmp_path: Path) -> None:
    machine = read(PAIR)
    path = tmp_path / "again.xml"
    path.write_text(platform_xml(machine, 2))
    assert lk.platform(path).description == machine.description


@pytest.mark.parametrize(
    "spec",
    [
        "star:64",
        "star:4,bb_bw=1GBps,bb_lat=1us,bb_sharing=fatpipe,limiter=2GBps",
        "star:4,bb_bw=1GBps,sharing=shared,loopback_bw=5GBps",
        "torus:4x4x2,limiter=1GBps,model=smpi,speed=3.5Gf",
        "fattree:4x4:1x2:1x2,cores=2,sharing=fatpipe,loopback_bw=6GBps,loopback_lat=100ns",
    ],
)
def test_clusters_read_back_as_the_same(tmp_path: Path, spec: str) -> None:
    machine = lk.platform(spec)
    path = tmp_path / "again.xml"
    path.write_text(platform_xml(machine, 4))
    assert lk.platform(path).spec == machine.spec


def test_a_file_runs_a_program_wherever_a_machine_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    path.write_text(HEAD + CLUSTER)
    result = lk.run(lambda comm: comm.allreduce(comm.rank), ranks=4, on=str(path))
    assert result.results == [6] * 4
    assert (
        result.makespan_s
        == lk.run(lambda comm: comm.allreduce(comm.rank), 4, "star:4,bw=125MBps,lat=50us").makespan_s
    )
