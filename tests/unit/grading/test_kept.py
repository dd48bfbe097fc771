"""Grades that are kept are the teacher's: signed, apart from what is handed in, and of nobody else's work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labkit.cli.main import main
from labkit.errors import MachineError
from labkit.grading.assignment import find_assignment
from labkit.grading.folder import find_submissions, keep, kept_folder, kept_grade, source_of
from labkit.grading.page import Grade
from labkit.grading.result import CheckResult
from labkit.grading.sandbox import Containment, Sandbox
from tests.support.course import ASSIGNMENTS

PREFIX_SUM = ASSIGNMENTS["prefix_sum"]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def _handed_in(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "ada.py").write_text("x = 1\n")
    return folder


def test_a_kept_grade_comes_back_for_its_student_and_source_only(tmp_path: Path) -> None:
    folder = _handed_in(tmp_path)
    kept = kept_folder(folder)
    assert tmp_path / "state" in kept.parents
    full = Grade("ada", "prefix_sum", [CheckResult("powers", "P", 3, 3, "right")])
    keep(kept, full, folder / "ada.py", PREFIX_SUM, "")
    source = source_of(folder / "ada.py")
    assert kept_grade(kept, "ada", source, PREFIX_SUM).points == 3
    assert kept_grade(kept, "ada", "x = 2\n", PREFIX_SUM) is None
    assert (tmp_path / "state" / "labkit" / "grades.key").stat().st_mode & 0o077 == 0
    (kept / "bob.json").write_bytes((kept / "ada.json").read_bytes())
    assert kept_grade(kept, "bob", source, PREFIX_SUM) is None, "nobody's grade is another's"


def test_a_grade_is_of_the_checks_and_the_labkit_that_gave_it(tmp_path: Path, monkeypatch) -> None:
    folder, own = _handed_in(tmp_path), tmp_path / "teacher"
    own.mkdir()
    monkeypatch.syspath_prepend(own)
    (own / "oracle.py").write_text("X = 1\n")
    text = "import oracle\nfrom labkit.grading import find_assignment\n"
    text += "ASSIGNMENT = find_assignment('prefix_sum')\n"
    (own / "mine.py").write_text(text)
    kept, source = kept_folder(folder), source_of(folder / "ada.py")

    def is_kept() -> bool:
        return kept_grade(kept, "ada", source, find_assignment(own / "mine.py")) is not None

    grade = Grade("ada", "prefix_sum", [CheckResult("powers", "P", 3, 3, "right")])
    keep(kept, grade, folder / "ada.py", find_assignment(own / "mine.py"), "")
    assert is_kept()
    (own / "oracle.py").write_text("X = 2\n")  # a module that the assignment imports
    assert not is_kept()
    (own / "oracle.py").write_text("X = 1\n")
    assert is_kept()
    monkeypatch.setattr("labkit.grading.folder.engine_digest", lambda: "another engine")
    assert not is_kept()


def test_a_forged_one_is_none(tmp_path: Path) -> None:
    folder = _handed_in(tmp_path)
    kept = kept_folder(folder)
    keep(kept, Grade("ada", "prefix_sum", []), folder / "ada.py", PREFIX_SUM, "")
    file = json.loads((kept / "ada.json").read_text())
    signed = json.loads(file["signed"])
    signed["grade"]["checks"] = [
        {"name": "powers", "title": "P", "points": 3, "max_points": 3, "feedback": ""}
    ]
    file["signed"] = json.dumps(signed)
    (kept / "ada.json").write_text(json.dumps(file))
    source = source_of(folder / "ada.py")
    assert kept_grade(kept, "ada", source, PREFIX_SUM) is None
    for text in ("[]", "{}", '{"signature": 1, "signed": 2}', "[" * 10**5, ""):
        (kept / "ada.json").write_text(text)
        assert kept_grade(kept, "ada", source, PREFIX_SUM) is None


def test_a_hand_in_that_brings_grades_is_graded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _handed_in(tmp_path)
    keep(folder / ".labkit-grades" / "prefix_sum", Grade("ada", "prefix_sum", [
        CheckResult("powers", "P", 3, 3, "right")]), folder / "ada.py", PREFIX_SUM, "")  # fmt: skip
    assert main(["grade", str(folder), "--assignment", "prefix_sum", "--json"]) == 0
    (grade,) = json.loads(capsys.readouterr().out)["grades"]
    assert grade["points"] == 0


def test_links_to_other_work_are_refused_and_stop_nobody(tmp_path: Path) -> None:
    folder = _handed_in(tmp_path)
    secret = tmp_path / "solution.py"
    secret.write_text("solved = True\n")
    (folder / "eve.py").symlink_to(secret)
    (folder / "mal").mkdir()
    (folder / "mal" / "sort.py").symlink_to(secret)
    (folder / "sly").symlink_to(tmp_path)
    found = find_submissions(folder)
    assert found["ada"] == folder / "ada.py"
    for name in ("eve", "mal", "sly"):
        assert "it is a link" in str(found[name])


def test_what_a_machine_lacks_is_said_before_grading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(self: Sandbox) -> None:
        if "preload" not in self.without:
            raise MachineError("grading has begun")
        self.containment = Containment(system_calls=True, files="none")

    monkeypatch.setattr(Sandbox, "start", started)
    main(["grade", str(_handed_in(tmp_path)), "--assignment", "prefix_sum"])
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("this machine lacks: no mount namespace: no file can be opened")
    assert said[1].startswith("this machine lacks: the machine's clock cannot be taken away")
