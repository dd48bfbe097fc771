"""Any bytes at all end in a value, or in one sentence that echoes at most 200 characters of them."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit.errors import (
    DataError,
    ExpectationError,
    LabkitError,
    MachineError,
    PlatformError,
    ScheduleError,
    TimeLimitError,
)
from labkit.local.costs import KernelCosts, find_calibration
from labkit.machines.quantities import parse_bandwidth, parse_speed, parse_time
from labkit.selector import Rules
from labkit.study.formats.reader import read_data
from labkit.text.files import json_of, text_of, toml_of
from tests.support.refusals import raises_code

DEEP, DIGITS = "[" * 100_000, "1" * 400


@pytest.mark.parametrize(
    "text", [f"x = {DEEP}", f"x = {DIGITS}", "x = " + "1" * 5000, "x = [{y = -9223372036854775809}]"]
)
def test_toml_that_no_table_can_hold_is_no_toml(text: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError, match=r"nested too deeply|too large|thousands of digits"):
        toml_of(text)


def test_toml_and_json_that_a_table_can_hold() -> None:
    assert toml_of("x = [9223372036854775807]") == {"x": [2**63 - 1]}
    assert json_of('{"x": [1, -12, 9007199254740993]}') == {"x": [1, -12, 2**53 + 1]}
    assert json_of(f"[{DIGITS}, 1{'0' * 19}]") == [float("inf"), 1e19]
    with pytest.raises(json.JSONDecodeError, match=r"nested too deeply"):
        json_of(DEEP)


@pytest.mark.parametrize("error", [DataError, PlatformError, MachineError])
def test_a_text_that_is_not_utf8_is_one_sentence(tmp_path: Path, error: Any) -> None:
    (tmp_path / "a").write_bytes(b"caf\xe9")
    with pytest.raises(error, match="no text in UTF-8"):
        text_of(tmp_path / "a", error)
    with pytest.raises(error, match="cannot be read: Is a directory"):
        text_of(tmp_path, error)


#: file name, content, what reads it
FILES: list[tuple[str, str | bytes, Any]] = [
    ("a.toml", b"\xe9", find_calibration),
    ("a.toml", f"x = {DEEP}", find_calibration),
    ("a.toml", f"reference_flops_per_s = {DIGITS}", find_calibration),
    ("a.toml", "x = 1", lambda path: KernelCosts.read("x = " + "1" * 5000, "a")),
    ("a.toml", b"\xe9", lk.platform),
    ("a.toml", f"spec = {DEEP}", lk.platform),
    ("a.toml", f"spec = {DIGITS}", lk.platform),
    ("a.toml", f"spec = 'star:{DIGITS}'", lk.platform),
    ("r.toml", f"rules = {DEEP}", Rules.read),
    ("r.json", DEEP, Rules.read),
    ("r.json", b'"\xe9"', Rules.read),
    ("d.json", DEEP, read_data),
    ("d.json", '{"params": {"p": 1}, "value": 1}\n' + DEEP, read_data),
    ("d.jsonl", '{"params": {"p": "' + DIGITS * 3 + 'x"}, "value": 1}', read_data),
    ("d.txt", "POINTS ( 1 2 ) ( 4 8 )\nPARAMETER p\n", read_data),
    ("d.csv", "p,metric,value,repetition\n1,m,1,inf\n", read_data),
    ("d.csv", "p,metric,value,repetition\n1,m,1," + DIGITS + "\n", read_data),
    ("d.csv", "p,value\n" + "x" * 5000 + ",1\n", read_data),
    ("d.csv", b"p,value\n\xe9,1\n", read_data),
    ("d.csv", "p,value\n'" + "x y" * 5000 + "',1\n", read_data),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(FILES)))
def test_a_file_of_any_content_is_one_short_sentence(tmp_path: Path, at: int) -> None:
    name, content, read = FILES[at]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((DataError, PlatformError, ScheduleError)) as caught:
        read(path)
    assert len(str(caught.value).replace(str(path), "")) < 700


def test_an_archive_of_a_later_format_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\1\2") + 6] = 99  # the version that is needed to unpack it
    path.write_bytes(content)
    with raises_code(DataError, "damaged-file"):
        read_data(path)


@pytest.mark.parametrize("name", ["y" * 300, "/" + "d/" * 3000, "a\0b", "\ud800"], ids=ascii)
def test_a_name_that_no_file_can_have_ends_in_one_sentence(name: str) -> None:
    def program(comm: Any) -> None:
        comm.barrier()

    study = lk.sweep(program, ranks=[1, 2], on="star")
    for reads in (lk.platform, lk.load, lk.read_trace, lk.replay, lambda name: lk.run(name, 2), study.save):
        with pytest.raises(LabkitError):
            reads(name)


def test_what_arrived_is_cut_in_its_middle_and_words_of_ours_are_not() -> None:
    long = DataError(f"a.csv, row 1: '{'x y ' * 100}' is not a number; {'z' * 300}!")
    assert "(402 characters)" in str(long)
    assert "(301 characters)" in str(long)
    assert len(str(long)) < 450
    prose = "the rank's file isn't there. " * 20
    assert str(PlatformError(prose)) == prose
    assert len(str(DataError(f"damaged: {bytes(range(256)) * 20!r}"))) < 1000
    assert str(DataError(f"{'a' * 200} '{'b' * 198}'")) == f"{'a' * 200} '{'b' * 198}'"


def test_ranks_that_no_column_of_whole_numbers_holds_stay_positive(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p,value\n2,1\n4,2\n10000000000000000000,3\n")
    data, _ = read_data(tmp_path / "a.csv")
    assert data["p"].tolist() == [2, 4, 1e19]


@pytest.mark.parametrize(
    "text", ["p^0.5.5", "0.5.5 p", "p^(1.2.3)", "nan", "inf", "p nan", "Infinity", "p^inf"]
)
def test_what_is_no_number_is_no_expectation(text: str) -> None:
    with raises_code(ExpectationError, "malformed-expression"):
        lk.judge([2, 4, 8, 16, 32], [1, 2, 3, 4, 5], text)


def test_numbers_that_stand_apart_are_a_product() -> None:
    assert lk.judge([2, 4, 8, 16, 32], [2, 4, 8, 16, 32], "0.5 .5 p").match == "exact"


def test_no_quantity_leaves_the_range_of_simulated_time() -> None:
    for parse, text in (
        (parse_time, "1e300s"),
        (parse_time, "1.1e9s"),
        (parse_bandwidth, "1e-300Bps"),
        (parse_speed, "1e300f"),
    ):
        with raises_code(PlatformError, "out-of-range"):
            parse(text)
    assert parse_time("1e9s") == 1e9
    with pytest.raises(ValueError, match="below 1e\\+30"):
        lk.compute(seconds=1e300)


def test_the_slowest_machine_is_no_deadlock() -> None:
    def program(comm: Any) -> Any:
        lk.compute(flops=9e29)
        return comm.allreduce(comm.rank)

    assert lk.run(program, 4, on="star,lat=1e9s,bw=1e-30Bps,speed=1e-30f").results == [6] * 4


def test_the_time_limit_of_a_replay_is_also_that_of_reading(tmp_path: Path) -> None:
    for name, line in (("blank.gz", b"\n"), ("comments.gz", b"#" * 63 + b"\n")):
        with gzip.open(tmp_path / name, "wb", compresslevel=1) as file:
            for _ in range(40):
                file.write(line * ((4 << 20) // len(line)))
        with raises_code(TimeLimitError, "time-limit"):
            lk.replay(tmp_path / name, timeout_s=0.05)


KILLED = """
import os, signal
from mpi4py import MPI
comm = MPI.COMM_WORLD
print("so far")
if comm.rank == 1:
    {}
comm.barrier()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["os.kill(os.getpid(), signal.SIGKILL)", "os.abort()", "signal.raise_signal(15)", "os._exit(0)"]
)
def test_a_simulated_rank_that_kills_itself_ends_like_a_real_one(tmp_path: Path, how: str) -> None:
    (tmp_path / "kill.py").write_text(KILLED.format(how))
    words = [
        sys.executable,
        "-P",
        "-m",
        "labkit",
        "run",
        "-n",
        "2",
        "--on",
        "star:2",
        str(tmp_path / "kill.py"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1, "as on real MPI"
    assert "rank 1 " in done.stderr
    assert "kill.py:7" in done.stderr


def test_a_signal_to_oneself_that_ends_nothing_is_sent(tmp_path: Path) -> None:
    how = "signal.signal(15, lambda *_: print('caught')), os.kill(os.getpid(), 15), os.kill(os.getpid(), 0)"
    (tmp_path / "kill.py").write_text(KILLED.format(how))
    run = lk.run(tmp_path / "kill.py", 2)
    assert "caught" in run.output[1]
