"""What others have made, and their names: no pipe is waited for, and nothing of it steers a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from labkit.cli import main

_SCRIPT = "from mpi4py import MPI\n"
_READS = {
    "replay": ["replay", "PIPE", "--on", "star:2"],
    "study": ["study", "PIPE"],
    "report": ["report", "PIPE"],
    "judge": ["judge", "PIPE", "--expect", "p"],
    "verify": ["verify", "--no-run", "PIPE"],
    "model": ["run", "-n", "2", "--model", "PIPE.toml", "SCRIPT"],
    "mapping": ["run", "-n", "2", "--mapping", "PIPE.map", "SCRIPT"],
    "platform": ["run", "-n", "2", "--on", "PIPE.xml", "SCRIPT"],
    "machine": ["run", "-n", "2", "--on", "PIPE.toml", "SCRIPT"],
    "rules": ["run", "-n", "2", "--coll", "PIPE.toml", "SCRIPT"],
}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name")
@pytest.mark.parametrize("what", _READS)
def test_a_pipe_is_refused_and_not_waited_for(what: str, tmp_path: Path) -> None:
    for ending in ("", ".toml", ".map", ".xml"):
        os.mkfifo(tmp_path / f"PIPE{ending}")
    (tmp_path / "SCRIPT").write_text(_SCRIPT)
    words = [sys.executable, "-m", "labkit", *_READS[what]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "PIPE" in done.stderr
    assert "is a pipe, a socket or a device; give a file" in done.stderr
    assert done.returncode == 3


@pytest.mark.slow
@pytest.mark.parametrize("what", _READS)
def test_a_file_of_sixty_gigabytes_is_refused_unread(what: str, tmp_path: Path) -> None:
    """Sparse, so it takes no room on the disk; read whole it would take all memory."""
    for ending in ("", ".toml", ".map", ".xml"):
        with open(tmp_path / f"PIPE{ending}", "wb") as file:
            file.truncate(60 << 30)
    (tmp_path / "SCRIPT").write_text(_SCRIPT)
    words = [sys.executable, "-m", "labkit", *_READS[what]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 3, done.stderr
    assert "PIPE" in done.stderr
    assert "MemoryError" not in done.stderr


EVIL = "\x1b]0;owned\x07\x1b[2J\u202eabc\x9b31m"


def _is_harmless(text: str) -> bool:
    return "abc" in text and all(c.isprintable() or c in "\n\t" for c in text)


def test_names_in_a_bundle_do_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import labkit as lk

    path = tmp_path / "others.zip"
    lk.sweep(lambda comm: comm.barrier(), ranks=[2], on="star", progress=False).bundle(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"program/{EVIL}.py", "x")
    assert main(["verify", "--no-run", str(path)]) == 3
    assert _is_harmless(capsys.readouterr().err)


def test_a_files_name_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", EVIL, "--on", "star"]) == 3
    assert _is_harmless(capsys.readouterr().err)


def test_a_number_of_thousands_of_digits_in_a_study_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(f"title = {'7' * 5000}\n")
    assert main(["study", str(path)]) == 3
    assert "is no TOML file: a whole number of thousands of digits" in capsys.readouterr().err


@pytest.mark.parametrize("on", ["star", "mpi"])
def test_a_number_of_ranks_of_hundreds_of_digits_is_not_echoed_whole(
    on: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "SCRIPT").write_text(_SCRIPT)
    assert main(["run", "-n", "7" * 400, "--on", on, str(tmp_path / "SCRIPT")]) == 3
    told = capsys.readouterr().err
    assert "...(533 characters)..." in told
    assert told.count("7") <= 200
