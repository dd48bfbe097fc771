"""Folders of runs say whose they are: what a killed run leaves is removed, what a living one uses is not."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from labkit.cli import doctor as doctor_checks
from labkit.process import folders

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

OWNER = """
import sys
from labkit.process import folders
folders.SHARED_MEMORY = sys.argv[1]
made = folders.make_folder()
print(made, folders.shared_folder(made), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A temporary folder and a shared memory of this test's own."""
    temporary, shared = tmp_path / "tmp", tmp_path / "shm"
    temporary.mkdir()
    shared.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(folders, "SHARED_MEMORY", str(shared))
    return temporary, shared


def remaining(places):
    return sorted(path.name for place in places for path in place.iterdir())


def gone_pid():
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_the_next_start_removes_the_folders_of_a_killed_owner_only(places):
    command = [sys.executable, "-c", OWNER, str(places[1])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        made = [Path(path) for path in owner.stdout.readline().split()]
        (made[1] / "sm_segment.host.0").write_bytes(bytes(1 << 20))
        own = Path(folders.make_folder())
        assert all(path.is_dir() for path in (*made, own))
        assert (made[1] / folders.RUN_LINK).readlink() == made[0]
        owner.kill()
        owner.wait()
        found = folders.leftovers()
        assert {one.path for one in found} == {str(path) for path in made}
        assert all(one.is_certain for one in found)
        assert sum(one.n_bytes for one in found) >= 1 << 20
        with folders.private_folder() as second:
            assert remaining(places) == sorted([own.name, second.name])
    assert remaining(places) == [own.name]


def test_a_process_with_the_number_of_the_owner_is_not_taken_for_it(places):
    mine = Path(folders.make_folder())
    parts = mine.name.split("-")
    parts[3] = str(int(parts[3]) - 1)  # this process's number, given to another one before
    (mine.parent / "-".join(parts)).mkdir()
    assert remaining(places) != [mine.name]
    assert len(folders.remove_leftovers()) == 1
    assert remaining(places) == [mine.name]


def test_names_without_an_owner_are_nobodys_business(places):
    temporary, shared = places
    pid = gone_pid()
    kept = ["labkit-notes", "labkit-mark", f"labkit-{os.getpid()}-abcdefgh", "other"]
    for name in kept:
        (shared / name).mkdir()
    (shared / "labkit-file").write_text("")
    (shared / f"labkit-{pid}-planted1").mkdir()  # a number without more is enough in shared memory only
    (temporary / f"labkit-{pid}-planted1").mkdir()
    (shared / f"labkit-{pid}-elsewhere").symlink_to(temporary)
    assert [Path(one.path).name for one in folders.remove_leftovers(is_thorough=True)] == [
        f"labkit-{pid}-planted1"
    ]
    assert (temporary / f"labkit-{pid}-planted1").exists()
    assert not (shared / f"labkit-{pid}-planted1").exists()
    assert all((shared / name).exists() for name in kept)


def test_another_container_is_left_alone_until_nothing_has_changed_for_a_day(places):
    other = places[0] / f"labkit-{gone_pid()}-0123abcd-77-abcdefgh"
    other.mkdir()
    assert [one.is_certain for one in folders.leftovers()] == [False]
    folders.make_folder()
    assert folders.remove_leftovers(is_thorough=True) == []
    assert f"rm -r {other}" in doctor_checks.CHECKS["leftovers"](1.0)
    old = time.time() - 2 * folders.SILENT_S
    os.utime(other, (old, old))
    assert folders.remove_leftovers() == []
    assert str(other) in doctor_checks.CHECKS["leftovers"](1.0)
    assert not other.exists()
    assert doctor_checks.CHECKS["leftovers"](1.0) == "none"


def test_files_that_ranks_have_noted_outside_go_too(places):
    parts = Path(folders.make_folder()).name.split("-")
    folder = places[0] / "-".join([parts[0], str(gone_pid()), *parts[2:]])
    folder.mkdir()
    segment, outside = places[1] / "mpich_shm_1", places[0] / "mine"
    segment.write_text("")
    outside.write_text("")
    (folder / "rank-0.shm").write_text(f"{segment}\n{outside}\n{places[1]}/gone")
    folders.remove_leftovers()
    assert not folder.exists()
    assert not segment.exists()
    assert outside.exists()


def test_segments_of_open_mpi_that_nobody_maps_are_removed_on_request(places):
    old = time.time() - 1000
    names = [f"sm_segment.{os.uname().nodename}.0.{k}.0" for k in range(3)] + [
        "sm_segment.another-host.0.7.0"
    ]
    for name in names:
        (places[1] / name).write_bytes(bytes(4096))
        if name != names[2]:  # that one is being made just now
            os.utime(places[1] / name, (old, old))
    with open(places[1] / names[0], "r+b") as file, mmap.mmap(file.fileno(), 0):
        os.utime(places[1] / names[0], (old, old))
        folders.make_folder()
        assert all((places[1] / name).exists() for name in names)
        removed = folders.remove_leftovers(is_thorough=True)
    assert [(Path(one.path).name, one.n_bytes) for one in removed] == [(names[1], 4096)]
    assert sorted(path.name for path in places[1].iterdir()) == sorted({*names} - {names[1]})


GRADER = """
import sys
from pathlib import Path
from labkit.grading import find_assignment
from labkit.grading.folder import grade_folder
grade_folder({"ada": Path(sys.argv[1])}, find_assignment("broadcast"), jobs=1)
"""


def test_what_a_killed_grader_leaves_is_seen_and_removed(places, tmp_path):
    submission = tmp_path / "ada.py"
    submission.write_text("def broadcast(comm, data, root):\n    while True:\n        pass\n")
    with subprocess.Popen([sys.executable, "-c", GRADER, str(submission)]) as grader:
        while not remaining(places) and grader.poll() is None:
            time.sleep(0.02)
        grader.kill()
    assert grader.returncode == -9
    patience = time.monotonic() + 60  # its children end a little after it
    while not folders.leftovers() and time.monotonic() < patience:
        time.sleep(0.02)
    assert len(remaining(places)) == len(folders.leftovers()) == 1, "every one is that of a run"
    with folders.private_folder() as own:
        assert remaining(places) == [own.name]
