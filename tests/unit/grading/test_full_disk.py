"""A full disk takes no grade away: grades are printed first, files are whole or not there, caches warn."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

import labkit.text.files
from labkit.cli.main import main
from labkit.errors import CacheWarning
from labkit.grading.assignment import find_assignment
from labkit.grading.folder import find_submissions, grade_folder
from labkit.grading.page import Grade
from labkit.grading.result import CheckResult


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Submissions whose grading takes no time."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "in"
    folder.mkdir()
    for student in ("ada", "bob", "eve"):
        (folder / f"{student}.py").write_text("x = 1\n")

    def graded(path, assignment, student=None, *_):
        return Grade(student, assignment.name, [CheckResult("powers", "P", 2, 3, "right")])

    monkeypatch.setattr("labkit.grading.folder.grade_file", graded)
    return folder


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full: files can be made, and no byte can be written to them."""

    def refuse(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(labkit.text.files.os, "fsync", refuse)


def test_a_class_is_graded_though_no_grade_can_be_kept(folder, tmp_path, full, capsys):
    kept = tmp_path / "kept"
    assert main(["grade", str(folder), "--assignment", "prefix_sum", "--kept", str(kept), "--json"]) == 0
    said = capsys.readouterr()
    assert [one["points"] for one in json.loads(said.out)["grades"]] == [2, 2, 2]
    assert said.err.count("grades cannot be kept") == 1
    assert not [path for path in kept.rglob("*") if path.is_file()]

    with pytest.warns(CacheWarning, match="No space left on device"):
        assert len(grade_folder(find_submissions(folder), find_assignment("prefix_sum"), kept=kept)) == 3


@pytest.mark.parametrize(
    ("option", "name"), [("--csv", "g.csv"), ("--dashboard", "d.html"), ("--feedback", "f")]
)
def test_grades_are_printed_before_files_are_written(folder, tmp_path, full, capsys, option, name):
    (tmp_path / "g.csv").write_text("the old one")
    command = ["grade", str(folder), "--assignment", "prefix_sum", "--fresh", option, str(tmp_path / name)]
    assert main(command) == 3
    said = capsys.readouterr()
    assert all(student in said.out for student in ("ada", "bob", "eve"))
    assert (
        f"cannot write {tmp_path / name}: No space left on device; all grades are printed above" in said.err
    )
    assert (tmp_path / "g.csv").read_text() == "the old one"
    assert not list(tmp_path.glob(".*.part"))


def test_one_file_that_cannot_be_written_leaves_the_others(folder, tmp_path, capsys):
    (tmp_path / "device").symlink_to("/dev/full")
    command = ["grade", str(folder), "--assignment", "prefix_sum", "--fresh", "--csv",
               str(tmp_path / "device"), "--dashboard", str(tmp_path / "d.html")]  # fmt: skip
    assert main(command) == 3
    assert "No space left on device" in capsys.readouterr().err
    assert "ada" in (tmp_path / "d.html").read_text()
