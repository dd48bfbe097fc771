"""Small zips that are large unpacked, tables that are large in memory, pipes and devices: refused at once."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import labkit as lk
from labkit.errors import DataError
from labkit.study.bundle.verify_bundle import open_bundle
from labkit.study.formats.reader import read_data
from labkit.study.store import read_study, study_of
from tests.support.refusals import raises_code


def _packed(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("inside", ["study.json", "data.csv"])
def test_a_bomb_is_not_unpacked(tmp_path: Path, inside: str) -> None:
    files = {"study.json": b"{}", "data.csv": b"a\n", inside: bytes(130 << 20)}
    bomb = _packed(tmp_path / "bomb.zip", files)
    assert bomb.stat().st_size < 1 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in (read_study, read_data, lk.load):
        with raises_code(DataError, "too-large"):
            read(bomb)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize("inside", ["study.json", "data.csv"])
def test_a_table_that_is_large_in_memory_is_not_read(inside: str) -> None:
    with raises_code(DataError, "too-large"):
        study_of({"study.json": b"{}", "data.csv": b"a\n", inside: b"," * 6_000_000}, "x.zip")


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.zip"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        for read in (read_study, read_data, open_bundle):
            with raises_code(DataError, "wrong-kind-of-file"):
                read(path)
    words = [sys.executable, "-m", "labkit", "judge", str(pipe), "--expect", "p"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "give a file" in done.stderr) == (3, True), done
