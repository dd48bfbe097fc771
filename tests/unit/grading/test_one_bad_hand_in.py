"""One bad hand-in is one student's result: the class goes on, and nothing of it reaches the teacher."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit.cli.main import main
from labkit.grading.folder import find_submissions, grade_folder, write_csv, write_feedback
from labkit.grading.page import Grade
from labkit.grading.result import CheckResult, clean_name, file_stem
from tests.support.course import ASSIGNMENTS
from tests.support.submissions import SUBMISSIONS
from tests.support.submissions_poisoned import write_poisoned

PREFIX_SUM = ASSIGNMENTS["prefix_sum"]

pytestmark = pytest.mark.usefixtures("needs_a_sandbox")
RIGHT = next(s.source for s in SUBMISSIONS if s.name == "hillis")
QUICK = replace(PREFIX_SUM, checks=[replace(PREFIX_SUM.checks[0], ranks=(2,))])


def _kind(grade: Grade) -> str:
    if grade.status != "graded":
        return "ungraded"
    return "full" if grade.is_full else "none" if grade.points == 0 else "part"


@pytest.mark.slow
def test_every_poisoned_hand_in_becomes_its_students_result(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    wanted = {clean_name(name): kind for name, kind in write_poisoned(folder, RIGHT).items()}
    grades = grade_folder(find_submissions(folder), QUICK, jobs=2, kept=tmp_path / "kept")
    assert {grade.student: _kind(grade) for grade in grades} == wanted
    for grade in grades:
        said = grade.message or grade.results[0].feedback
        assert said.strip(), grade
        assert grade.student.isprintable()
        json.dumps(grade.to_dict(), ensure_ascii=False).encode()
    write_csv(grades, tmp_path / "g.csv")
    with (tmp_path / "g.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(wanted)
    assert len((tmp_path / "g.csv").read_text().splitlines()) == len(wanted) + 1, "a name forges no row"
    assert not any(row["student"][:1] in "=-+@" for row in rows)
    write_feedback(grades, tmp_path / "pages")
    pages = [path.read_text() for path in (tmp_path / "pages").iterdir()]
    assert len(pages) == len(wanted)
    assert not any("<script" in page for page in pages)
    again = grade_folder(find_submissions(folder), QUICK, kept=tmp_path / "kept")
    assert [(g.student, g.points) for g in again] == [(g.student, g.points) for g in grades]


@pytest.mark.slow
def test_the_command_goes_on_and_shows_each_on_a_line(tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "eve\nada  11  11.py").write_text(RIGHT)
    (folder / "two.py").write_text(RIGHT)
    (folder / "two.ipynb").write_text("{")
    assert main(["grade", str(folder), "--assignment", "prefix_sum", "--fresh"]) == 1
    captured = capsys.readouterr()
    assert "two: NOT GRADED: more than one submission of two: two.ipynb, two.py; leave one" in captured.err
    lines = captured.out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["eve\\nada", "two"]


def test_a_result_holds_what_can_be_written_only() -> None:
    result = CheckResult("a", "A", 0, 1, "half \ud800\x1b[2J \u202e and \u00a0", "\x9b")
    assert (result.feedback, result.hint) == ("half ??[2J ? and  ", "?")
    grade = Grade("a\nb\udce9", "sort", [result], message="\ud800")
    assert (grade.student, grade.message) == ("a\\nb\\udce9", "?")
    assert Grade.from_dict(json.loads(grade.to_json())) == grade
    assert len(grade.text().splitlines()) == len(grade.text().split("\n"))


def test_a_name_becomes_a_file_of_this_folder() -> None:
    assert file_stem("ada") == "ada"
    for name in (".", "..", "../../x", "n" * 250, "\u00e9" * 120, "a/b"):
        stem = file_stem(name)
        assert "/" not in stem
        assert not stem.startswith(".")
        assert len(f".{stem}.json.part".encode()) < 255
    assert file_stem("n" * 250) != file_stem("n" * 251)


def _below(root: int) -> set[int]:
    """All descendants of a process."""
    parents = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_grader_is_the_end_of_all_it_started(tmp_path: Path, number: int) -> None:
    for name in ("ada.py", "bob.py"):
        (tmp_path / name).write_text("def rounds(group):\n    while True:\n        pass\n")
    words = [sys.executable, "-P", "-m", "labkit", "grade", str(tmp_path), "--assignment", "prefix_sum"]
    grader = subprocess.Popen([*words, "--jobs", "2", "--fresh"], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while (
            len(started := _below(grader.pid)) < 7 and time.monotonic() < deadline
        ):  # 2 workers, zygotes, ranks
            time.sleep(0.05)
        assert len(started) >= 7
    finally:
        os.kill(grader.pid, number)
    assert grader.wait(30) == -number
    deadline = time.monotonic() + 30
    while any(map(_is_there, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in started if _is_there(pid)] == []


@pytest.mark.slow
@pytest.mark.parametrize("words", [["-P", "-m", "labkit"], ["-m", "labkit"]])
def test_inside_the_folder_nothing_is_imported_from_it(tmp_path: Path, words: list[str]) -> None:
    mark = tmp_path / "imported"
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("numpy", "json", "IPython", "sitecustomize", "argparse", "scipy", "bokeh", "markupsafe"):
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    notebook = {"cells": [{"cell_type": "code", "metadata": {}, "source": f"%time x = 1\n{RIGHT}"}]}
    (folder / "ada.ipynb").write_text(json.dumps(notebook))
    done = subprocess.run(
        [sys.executable, *words, "grade", ".", "--assignment", "prefix_sum", "--jobs", "2", "--json"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    points = {grade["student"]: grade["points"] for grade in json.loads(done.stdout)["grades"]}
    assert points["ada"] == 11
    assert len(points) == 9
    assert not mark.exists()
