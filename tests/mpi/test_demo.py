"""The demo as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.mpi


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "labkit", "demo", "--quick", *arguments],
        capture_output=True, text=True, timeout=600, env={**os.environ, **environment}, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_it_sorts_judges_and_writes_a_page(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    done = start("--json", "--out", str(page))
    record = json.loads(done.stdout)
    assert done.returncode == record["exit"] == 0, done.stderr
    assert not record["trouble"]
    assert {(sort["sound check"], sort["numpy.sort"]) for sort in record["real"]} == {("passed", "equal")}
    assert {sort["ranks"] for sort in record["real"]} == {1, 2}
    assert {one["machine"] for one in record["simulated"]} == {"star", "torus", "fat tree"}
    assert {one["sorter"] for one in record["simulated"]} == {sort["sorter"] for sort in record["real"]}
    matches = {(one["program"], one["machine"], one["phase"]): one["match"] for one in record["verdicts"]}
    assert matches["sample sort", "star", "local sort"] == "exact"
    text = page.read_text(encoding="utf-8")
    assert "How each phase grows" in text
    assert "<script src=" not in text, "the page must not need a network"


@pytest.mark.slow
def test_without_mpi_it_says_so_and_goes_on(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    done = start("--out", str(page), LABKIT_MPI=str(tmp_path / "no-such-mpiexec"))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "There is no MPI that works here: " in done.stdout
    assert "How each phase grows" in done.stdout
    assert page.exists()
    assert "Traceback" not in done.stderr
