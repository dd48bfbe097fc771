"""A user's own model files: read, selected per run, and refused with the line and the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines import models
from tests.support.refusals import raises_code

HEAD = 'title = "ours"\nsource = "measured by hand"\n'
GOOD = (
    HEAD
    + """base = "smpi"

[network]
cross_traffic = false
latency_factor = [
  [0, 2.0],       # small
  [1426, 1.5],
]
[protocol]
detached_below_bytes = 1000
send_overhead = [[0, 1e-6, 2e-9]]
"""
)


def write(folder: Path, text: str) -> str:
    path = folder / "ours.toml"
    path.write_text(text)
    return str(path)


def ping(comm: lk.MPI.Comm) -> None:
    if comm.rank == 0:
        comm.Send(bytearray(500), 1)
    else:
        comm.Recv(bytearray(500), 0)


def test_what_a_file_gives_replaces_its_base(tmp_path: Path) -> None:
    model, smpi = models.get(write(tmp_path, GOOD)), models.get("smpi")
    assert (model.name, model.title, model.source) == ("ours", "ours", "measured by hand")
    assert model.latency_factor == ((0, 2.0), (1426, 1.5))
    assert model.send_overhead == ((0, 1e-6, 2e-9),)
    assert not model.cross_traffic
    assert model.detached_below_bytes == 1000
    assert model.bandwidth_factor == smpi.bandwidth_factor
    assert models.get(Path(write(tmp_path, GOOD))) == model


def test_without_a_base_what_is_left_out_is_as_in_raw(tmp_path: Path) -> None:
    model, raw = models.get(write(tmp_path, HEAD)), models.get("raw")
    assert all(getattr(model, key) == getattr(raw, key) for key in models.OPTIONS)


def test_a_run_uses_it_by_argument_by_platform_and_changed(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    lat, bw, size = 1e-6, 1e9, 516
    factor = 0.338112  # of smpi, between 257 and 732 bytes
    by_hand = 1e-6 + 500 * 2e-9 + 2.0 * 2 * lat + size / (bw * factor)
    run = lk.run(ping, 2, "star:2,bw=1GBps,lat=1us", model=path)
    assert run.makespan_s == pytest.approx(by_hand, rel=1e-12)
    assert run.model == "ours"
    on_platform = lk.run(ping, 2, f"star:2,bw=1GBps,lat=1us,model={path}")
    assert on_platform.makespan_s == run.makespan_s
    changed = lk.run(ping, 2, "star:2,bw=1GBps,lat=1us", model=f"{path},send_overhead=0:5e-6:0")
    assert changed.makespan_s == pytest.approx(by_hand + 4e-6 - 1e-6, rel=1e-12)


def test_options_behind_a_name() -> None:
    text = (
        "lab,cross_traffic=no,detached_below_bytes=0,tcp_gamma_bytes=65536,"
        "recv_overhead=0:1e-6:2e-10;1420:3e-6:0,bandwidth_factor=0:0.5"
    )
    same = models.get(
        "lab",
        cross_traffic=False,
        detached_below_bytes=0,
        tcp_gamma_bytes=65536,
        recv_overhead=[[0, 1e-6, 2e-10], [1420, 3e-6, 0.0]],
        bandwidth_factor=[[0, 0.5]],
    )
    assert models.get(text) == same
    assert models.get("ib,penalties=1;2;3").penalties == (1, 2, 3)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("lab,speed=3", ("unknown-name", "'speed=3'")),
        ("lab,cross_traffic", ("malformed-specification", "NAME", "VALUE")),
        ("lab,cross_traffic=perhaps", ("malformed-value",)),
        ("lab,wtime_s=soon", ("malformed-value",)),
        ("lab,wtime_s=1,wtime_s=2", ("duplicate-name",)),
        ("lab,send_overhead=0:a:b", ("malformed-value", "THRESHOLD", "SECONDS", "SECONDS_PER_BYTE")),
        ("lab,send_overhead=0:1e-6", ("invalid-value", "3")),
        ("lab,send_overhead=0:1e308:0", ("invalid-value", "1e+09")),
        ("lab,wtime_s=1e308", ("invalid-value", "1e+09")),
        ("lab,latency_factor=0:1e308", ("invalid-value", "1e+09")),
        ("nowhere.toml", ("missing-file",)),
    ],
)
def test_options_that_cannot_be_read_are_refused(text: str, wanted: tuple[str, ...]) -> None:
    with raises_code(PlatformError, *wanted):
        models.get(text)


@pytest.mark.parametrize(
    ("body", "line", "wanted"),
    [
        ("[network]\ncross_traffic = maybe\n", 4, ("malformed-line", "TOML")),
        ("[network]\nlatency_factor = [[0, 1.0]\n", 4, ("malformed-line", "TOML")),
        ("[netwerk]\n", 3, ("malformed-line", "'netwerk'")),
        ("color = 1\n", 3, ("malformed-line", "'color'")),
        ('base = "mine"\n', 3, ("malformed-line", "'mine'")),
        ("base = 3\n", 3, ("malformed-line",)),
        ("[network]\n\nwtime_s = 1.0\n", 5, ("malformed-line", "[network]", "'wtime_s'", "weight_s_bytes")),
        (
            "[network]\nlatency_factor = [\n  [0, 1.0],\n  # note [1\n  [9, -2.0],\n]\n",
            7,
            ("malformed-line", "row 2"),
        ),
        (
            "[network]\nlatency_factor = [[0, 1.0], [5, 1.0],\n [5, 2.0]]\n",
            5,
            ("malformed-line", "row 3"),
        ),
        ("[network]\nbandwidth_factor = [[0, 1.0, 2.0]]\n", 4, ("malformed-line", "row 1", "2")),
        ("[network]\nbandwidth_factor = 3\n", 4, ("malformed-line",)),
        ("[protocol]\n# x\nsend_overhead = [[0, 1e-6, nan]]\n", 5, ("malformed-line",)),
        ("[protocol]\nsend_overhead = [[0.5, 1e-6, 0.0]]\n", 4, ("malformed-line",)),
        ('[protocol]\ndetached_below_bytes = "64k"\n', 4, ("malformed-line", "'64k'")),
        ("[protocol]\ndetached_below_bytes = 10\neager_below_bytes = 20\n", 5, ("malformed-line",)),
        ("[calls]\nwtime_s = -1.0\n", 4, ("malformed-line", "wtime_s", "0")),
        ('[network]\nsharing = "fair"\n', 4, ("malformed-line", "'fair'")),
        ('[network]\ncross_traffic = true\nsharing = "delay"\n', 5, ("malformed-line", "cross_traffic")),
        ("[network]\npenalties = [1.0, 2.0]\n", 4, ("malformed-line",)),
        ("[network]\ncross_traffic = 1\n", 4, ("malformed-line",)),
    ],
)
def test_a_refusal_names_the_line_and_the_reason(
    tmp_path: Path, body: str, line: int, wanted: tuple[str, ...]
) -> None:
    path = write(tmp_path, HEAD + body)
    with raises_code(PlatformError, *wanted, f"{path}, line {line}:"):
        models.get(path)


def test_a_file_says_what_it_is_and_where_its_numbers_come_from(tmp_path: Path) -> None:
    with raises_code(PlatformError, "malformed-line", "line 1"):
        models.get(write(tmp_path, 'title = "ours"\n'))


def test_the_shipped_files_pass_the_same_reader() -> None:
    for name in models.names():
        assert models.get(name).name == name
