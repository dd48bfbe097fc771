"""A folder of submissions: none takes another down, what is done stays done, and what is written is right."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from labkit.cli.main import main
from labkit.errors import DataError
from labkit.grading.folder import find_submissions, grade_folder
from labkit.grading.result import Verdict
from tests.support.course import ASSIGNMENTS
from tests.support.refusals import raises_code
from tests.support.submissions import SUBMISSIONS

PREFIX_SUM = ASSIGNMENTS["prefix_sum"]

pytestmark = pytest.mark.usefixtures("needs_a_sandbox")
SOURCES = {s.name: s.source for s in SUBMISSIONS}
QUICK = replace(PREFIX_SUM, checks=PREFIX_SUM.checks[:1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "submissions"
    made.mkdir()
    (made / "ada.py").write_text(SOURCES["hillis"])
    (made / "bob.py").write_text(SOURCES["no_mask"])
    (made / "eve").mkdir()
    (made / "eve" / "anything.py").write_text(SOURCES["wrong_side"])
    (made / ".hidden.py").write_text("")
    (made / "notes.txt").write_text("not a submission")
    return made


def test_submissions_are_files_and_folders_of_students(folder: Path) -> None:
    assert {name: getattr(path, "name", "") for name, path in find_submissions(folder).items()} == {
        "ada": "ada.py", "bob": "bob.py", "eve": "anything.py",
    }  # fmt: skip
    (folder / "eve" / "second.py").write_text("")
    two = find_submissions(folder)
    assert str(two["eve"]) == "more than one submission of eve: eve/anything.py, eve/second.py; leave one"
    assert list(two) == ["ada", "bob", "eve"]
    with raises_code(DataError, "missing-file"):
        find_submissions(folder / "nowhere")
    (folder / "empty").mkdir()
    with raises_code(DataError, "missing-file"):
        find_submissions(folder / "empty")


def test_whoever_has_a_folder_or_a_name_has_a_result(folder: Path) -> None:
    (folder / "nobody").mkdir()
    (folder / "zip").mkdir()
    (folder / "zip" / "sort.zip").write_text("")
    os.mkfifo(folder / "pipe.py")
    (folder / "ida").mkdir()
    os.mkfifo(folder / "ida" / "a.py")
    (folder / "ida" / "b.py").write_text(SOURCES["hillis"])
    found = find_submissions(folder)
    assert list(found) == ["ada", "bob", "eve", "ida", "nobody", "pipe", "zip"]
    assert "no .py or .ipynb file" in str(found["nobody"])
    assert str(found["zip"]) == str(found["nobody"])
    assert str(found["pipe"]) == "it is a pipe, a socket or a device: hand in a file"
    assert Path(str(found["ida"])).name == "b.py"


@dataclass
class _Fatal:
    """A check that takes its own grader down for one student."""

    name: str = "fatal"
    title: str = "fatal"
    points: float = 1
    is_bonus: bool = False
    needs_simulation: bool = False

    def judge(self, trial: Any) -> Verdict:
        if "group.size - 0" in trial.bench.source:
            os._exit(11)
        if "group.size - 00" in trial.bench.source:
            raise RuntimeError("a fault of the grader")
        return Verdict(1.0, "fine")


@pytest.mark.slow
def test_a_grader_that_falls_over_takes_nobody_else_down(folder: Path) -> None:
    (folder / "bob.py").write_text(SOURCES["hillis"].replace("group.size", "group.size - 0"))
    grades = grade_folder(find_submissions(folder), replace(QUICK, checks=[_Fatal()]), jobs=2)
    assert [(g.student, g.status, g.points) for g in grades] == [
        ("ada", "graded", 1), ("bob", "ungraded", 0), ("eve", "graded", 1),
    ]  # fmt: skip
    assert "the process that graded it ended" in grades[1].message


@pytest.mark.slow
def test_what_is_done_is_not_graded_again_until_it_changes(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    first = grade_folder(find_submissions(folder), QUICK, kept=kept)
    times = {path.name: path.stat().st_mtime_ns for path in kept.iterdir()}
    (folder / "bob.py").write_text(SOURCES["hillis"])
    second = grade_folder(find_submissions(folder), QUICK, kept=kept)
    changed = {path.name for path in kept.iterdir() if path.stat().st_mtime_ns != times[path.name]}
    assert changed == {"bob.json"}
    assert [g.points for g in first] == [3, 0, 3]
    assert [g.points for g in second] == [3, 3, 3]
    assert second[0] == first[0]
    again = grade_folder(find_submissions(folder), QUICK, kept=kept, secret="another")
    assert again[0].seed != first[0].seed, "another secret gives other inputs, so grades anew"


@pytest.mark.slow
def test_the_command_grades_and_writes(folder: Path, tmp_path: Path, capsys: Any) -> None:
    secret = tmp_path / "secret"
    secret.write_text("for all\n")
    arguments = ["grade", str(folder), "--assignment", "prefix_sum", "--jobs", "2", "--json",
                 "--csv", str(tmp_path / "g.csv"), "--feedback", str(tmp_path / "pages"),
                 "--secret-file", str(secret)]  # fmt: skip
    assert main(arguments) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert answer["exit"] == 0
    assert {g["student"]: g["points"] for g in answer["grades"]} == {"ada": 11, "bob": 0, "eve": 9}
    assert "[3/3]" in captured.err
    rows = list(csv.DictReader((tmp_path / "g.csv").read_text().splitlines()))
    assert [(row["student"], row["points"], row["order"]) for row in rows] == [
        ("ada", "11.0", "2.0"), ("bob", "0.0", "0.0"), ("eve", "9.0", "0.0"),
    ]  # fmt: skip
    assert "Counterexample" in (tmp_path / "pages" / "eve.html").read_text()
    assert main([word for word in arguments if word != "--json"]) == 0
    table = capsys.readouterr().out
    assert "ada" in table
    assert "order" in table
    assert main(["grade", str(folder / "ada.py"), "--assignment", "prefix_sum"]) == 0
    assert "Proved complete" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--assignment", "nothing"], "no assignment is called"),
        (["--assignment", "sort", "--jobs", "0"], "--jobs must be at least 1"),
        (["--assignment", "sort", "--secret-file", "/no/such/file"], "cannot be read"),
        (["--assignment", "sort", "--csv", "/no/such/folder/g.csv"], "does not exist"),
        (["--assignment", "sort", "--kept", "/dev/null/kept"], "cannot write"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    folder: Path, capsys: Any, arguments: list[str], words: str
) -> None:
    assert main(["grade", str(folder), *arguments]) == 3
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
