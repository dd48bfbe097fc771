"""What the tests of real MPI share: a machine that has one, and a proof that nothing is left behind."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from pathlib import Path

import pytest


def marked_processes(mark: str) -> list[int]:
    """List the living processes that inherited the environment variable `mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def nothing_left(monkeypatch, tmp_path):
    """Fail when a process of the test, or one of its temporary files, outlives the test."""
    mark = f"LABKIT_TEST_MARK_{uuid.uuid4().hex}"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv(mark, "1")
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    deadline = time.monotonic() + 5.0  # the kernel reaps, and orphaned ranks clean up, at their own pace
    while (left := _left(mark, scratch)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []


def _left(mark: str, scratch: Path) -> list[object]:
    shared = Path("/dev/shm")
    folders = [folder for folder in shared.glob("labkit-*") if _is_abandoned(folder)]
    return [*marked_processes(mark), *scratch.iterdir(), *folders]


def _is_abandoned(folder: Path) -> bool:
    """Whether a folder in shared memory is of this process, or of one that is gone; others are at work."""
    owner = folder.name.split("-")[1]
    return owner == str(os.getpid()) or (owner.isdigit() and not Path("/proc", owner).exists())
