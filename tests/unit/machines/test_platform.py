"""Platform specifications: what is read, what is refused, and how many ranks fit."""

from __future__ import annotations

from pathlib import Path

import pytest

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines import quantities as units
from labkit.machines.spec import parse_spec
from labkit.machines.topologies.star import StarSpec
from tests.support.refusals import raises_code


def test_a_plain_star_has_the_documented_defaults() -> None:
    star = lk.platform("star:64")
    assert star.hosts == 64
    assert star.description == StarSpec(hosts=64, bw=1.25e9, lat=1e-6, speed=1e9, cores=1, model="lab")
    assert star.name == star.spec == "star:64"


def test_every_option_is_read() -> None:
    text = (
        "star:8,bw=10Gbps,lat=24us,speed=16.7Gf,cores=4,sharing=shared,bb_bw=1.25GBps,bb_lat=500ns,"
        "bb_sharing=fatpipe,limiter=187.5MBps,loopback_bw=6GBps,loopback_lat=1.5ns,model=smpi"
    )
    s = parse_spec(text)
    assert (s.bw, s.lat, s.speed, s.cores, s.sharing) == (1.25e9, 24e-6, 16.7e9, 4, "shared")
    assert (s.bb_bw, s.bb_lat, s.bb_sharing) == (1.25e9, 500e-9, "fatpipe")
    assert (s.limiter, s.loopback_bw, s.loopback_lat, s.model) == (187.5e6, 6e9, 1.5e-9, "smpi")
    assert parse_spec(str(s)) == s


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.25GBps", 1.25e9), ("10Gbps", 1.25e9), ("1MiBps", 2**20), ("8Kibps", 1024.0), ("1e9Bps", 1e9)],
)
def test_bandwidths(text: str, value: float) -> None:
    assert units.parse_bandwidth(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("1us", 1e-6), ("24us", 24e-6), ("1.5ns", 1.5e-9), ("2ms", 2e-3), ("0", 0.0), ("3s", 3.0)],
)
def test_times(text: str, value: float) -> None:
    assert units.parse_time(text) == value


@pytest.mark.parametrize(
    ("spec", "place", "says"),
    [
        ("", 1, "star:HOSTS"),
        ("ring:8", 1, "neither a topology nor a file nor a machine"),
        ("dragonfly:4x4:3x4:5x1", 11, "3 of 4 parts"),
        ("star:", 6, "whole number from 1 on"),
        ("star:0", 6, "whole number from 1 on"),
        ("star:-3", 6, "whole number from 1 on"),
        ("star:4.5", 6, "whole number from 1 on"),
        ("star:8,", 8, "NAME=VALUE"),
        ("star:8,bandwidth=1GBps", 8, "bw, lat, speed"),
        ("star:8,bw", 8, "NAME=VALUE"),
        ("star:8,lat=1us,bw=fast", 19, "number with a unit"),
        ("star:8,bw=1e9", 11, "has no unit"),
        ("star:8,bw=1us", 11, "unknown unit 'us'"),
        ("star:8,bw=0GBps", 11, "must be positive"),
        ("star:8,bw=1e999GBps", 11, "not finite"),
        ("star:8,lat=-1us", 12, "not be negative"),
        ("star:8,lat=1us,lat=2us", 16, "given twice"),
        ("star:8,cores=0", 14, "whole number from 1 on"),
        ("star:8,sharing=half", 16, "splitduplex, shared, fatpipe"),
        ("star:8,model=loggp", 14, "cm02, graphene, ib, lab, loggps, lv08, raw, rdma, smpi"),
        ("star:8,bb_lat=1us", 1, "bb_bw"),
        ("star:8,loopback_lat=1us", 1, "loopback_bw"),
    ],
)
def test_refusals_point_at_the_place_and_name_what_is_allowed(spec: str, place: int, says: str) -> None:
    with pytest.raises(PlatformError) as caught:
        lk.platform(spec)
    message = str(caught.value)
    assert says in message
    assert f"at character {place}:" in message
    lines = message.splitlines()
    assert lines[-2] == f"    {spec}"
    assert lines[-1] == " " * (4 + place - 1) + "^"


@pytest.mark.parametrize("thing", [64, None, 3.5, ["star:8"]])
def test_what_is_no_specification_is_refused(thing: object) -> None:
    with raises_code(PlatformError, "wrong-type", "star:64"):
        lk.platform(thing)  # type: ignore[arg-type]


def test_a_file_is_read_by_its_content_whatever_it_is_called(tmp_path: Path) -> None:
    cluster = '<cluster id="c" prefix="h" suffix="" radical="0-4" speed="1Gf" bw="1GBps" lat="1us"/>'
    (tmp_path / "machine").write_text(f'<platform version="4.1">{cluster}</platform>')
    (tmp_path / "mine.txt").write_text('spec = "star:3"\n')
    (tmp_path / "times.csv").write_text("p,time\n1,2\n")
    for shown in (str, Path):
        assert lk.platform(shown(tmp_path / "machine")).hosts == 5
        assert lk.platform(shown(tmp_path / "mine.txt")).hosts == 3
        with raises_code(PlatformError, "malformed-file", "times.csv"):
            lk.platform(shown(tmp_path / "times.csv"))


def test_an_unsized_star_grows_with_the_ranks() -> None:
    star = lk.platform("star,cores=4")
    assert star.hosts is None
    assert star.capacity is None
    assert [star.hosts_for(p) for p in (1, 4, 5, 1000)] == [1, 1, 2, 250]


def test_ranks_fill_the_first_hosts() -> None:
    assert lk.platform("star:8").rank_hosts(3).tolist() == [0, 1, 2]
    assert lk.platform("star:3,cores=2").rank_hosts(5).tolist() == [0, 0, 1, 1, 2]


def test_more_ranks_than_the_machine_holds_are_refused_with_what_to_do() -> None:
    with raises_code(PlatformError, "too-many-ranks", "9", "8", "cores=2"):
        lk.platform("star:8").hosts_for(9)
    with raises_code(PlatformError, "too-many-ranks", "17", "4", "16", "5"):
        lk.platform("star:4,cores=4").rank_hosts(17)


@pytest.mark.parametrize("ranks", [0, -1, True, 2.0, "4"])
def test_a_count_of_ranks_that_is_none_is_refused(ranks: object) -> None:
    with raises_code(PlatformError, "out-of-range"):
        lk.platform("star").hosts_for(ranks)  # type: ignore[arg-type]


def test_platforms_show_themselves() -> None:
    star = lk.platform("star:4,limiter=1.875GBps,bb_bw=2GBps,loopback_bw=6GBps")
    first, *rows = repr(star).splitlines()
    assert first == "Platform('star:4,bb_bw=2GBps,limiter=1.875GBps,loopback_bw=6GBps')"
    assert any(row.split() == ["diameter", "3", "links,", "2us"] for row in rows)
    page = star._repr_html_()
    for word in ("<table>", "backbone", "limiter", "loopback", "network model", "1.25GBps"):
        assert word in page


def test_a_platform_is_equal_to_its_like_and_may_be_a_key() -> None:
    assert lk.platform("star:4,lat=1us") == lk.platform("star:4")
    assert len({lk.platform("star:4"), lk.platform("star:4"), lk.platform("star:5")}) == 2
    star = lk.platform("star:4")
    assert lk.platform(star) is star


def test_a_file_names_its_machine(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text('spec = "star:16,bw=1Gbps,lat=24us"\nname = "our cluster"\nsource = "measured"\n')
    cluster = lk.platform(path)
    assert (cluster.name, cluster.hosts, cluster.source) == ("our cluster", 16, "measured")
    assert "our cluster" in repr(cluster)
    assert lk.platform(str(path)) == cluster


@pytest.mark.parametrize("text", ["", "spec = 3", 'spec = "star:4"\nlinks = "two"', "spec ="])
def test_a_file_that_is_no_platform_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with raises_code(PlatformError, "malformed-file", "broken.toml"):
        lk.platform(path)


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with raises_code(PlatformError, "missing-file", "nowhere.toml"):
        lk.platform(tmp_path / "nowhere.toml")
    with raises_code(PlatformError, "unreadable-file", "cluster.xml"):
        lk.platform("cluster.xml")
