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
    shared = Path("/dev/shm")
    yield
    deadline = time.monotonic() + 2.0  # the kernel reaps at its own pace
    while (left := marked_processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []
    assert list(scratch.iterdir()) == []
    ours = (
        [entry for entry in shared.iterdir() if entry.name.startswith("labkit-")] if shared.exists() else []
    )
    # Another run on this host may own a folder there; one of ours would have no living owner.
    assert all(_is_owned(entry) for entry in ours)


def _is_owned(folder: Path) -> bool:
    """Whether a living process was told to use this folder in shared memory."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "environ").read_bytes():
                return True
        except OSError:
            continue
    return not folder.exists()
