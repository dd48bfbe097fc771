"""Every generated submission gets exactly the checks it deserves; a course goes through nbgrader."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.grading.folder import find_submissions, grade_folder
from labkit.grading.result import clean_name
from tests.support.course import ASSIGNMENTS
from tests.support.submissions import SUBMISSIONS
from tests.support.submissions_poisoned import write_poisoned
from tests.support.submissions_right import RIGHT

PREFIX_SUM = ASSIGNMENTS["prefix_sum"]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("needs_a_sandbox")]
COURSE = Path(__file__).parents[3] / "course"


def test_sixty_hand_ins_with_poisoned_ones_are_sixty_results(tmp_path: Path) -> None:
    right = next(s.source for s in SUBMISSIONS if s.name == "hillis")
    wanted = {clean_name(name): kind for name, kind in write_poisoned(tmp_path, right).items()}
    assert len(wanted) >= 15
    for number in range(60 - len(wanted)):
        (tmp_path / f"s{number:02d}.py").write_text(right)
        wanted[f"s{number:02d}"] = "full"
    assignment = replace(PREFIX_SUM, checks=PREFIX_SUM.checks[:1])
    grades = grade_folder(find_submissions(tmp_path), assignment, jobs=2)
    kinds = {g.student: "ungraded" if g.message else "full" if g.is_full else "none" for g in grades}
    assert len(grades) == 60
    assert kinds == wanted


def test_there_are_enough_of_them() -> None:
    assert len(SUBMISSIONS) >= 30
    assert len(RIGHT) >= 100
    assert {s.kind for s in SUBMISSIONS if s.assignment == "sort"} == {"good", "wrong", "hostile"}


def _submit(course: Path, student: str, assignment: str, source: str, tampers: bool = False) -> None:
    """Fill in the released notebook as a student does; or also change its tests and forge their outputs."""
    notebook = json.loads((course / "release" / assignment / f"{assignment}.ipynb").read_text())
    for cell in notebook["cells"]:
        marks = cell["metadata"].get("nbgrader", {})
        if marks.get("solution"):
            assert "### BEGIN SOLUTION" not in "".join(cell["source"])
            cell["source"] = source
        if tampers and marks.get("grade"):
            forged = {"text/plain": str(marks["points"])}
            cell["source"] = str(marks["points"])
            cell["outputs"] = [
                {"output_type": "execute_result", "data": forged, "metadata": {}, "execution_count": 1}
            ]
    target = course / "submitted" / student / assignment
    target.mkdir(parents=True)
    (target / f"{assignment}.ipynb").write_text(json.dumps(notebook))


def _submit_poisoned(course: Path) -> dict[str, float]:
    """Hand in what once stopped the class; the points that each must get."""
    right = next(s.source for s in SUBMISSIONS if s.name == "hillis")
    whole = json.loads((course / "release" / "prefix_sum" / "prefix_sum.ipynb").read_text())
    for cell in whole["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("solution"):
            cell["source"] = right
    code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "id": "x"}
    test = next(c for c in whole["cells"] if c["metadata"].get("nbgrader", {}).get("grade"))
    solution = next(c for c in whole["cells"] if c["metadata"].get("nbgrader", {}).get("solution"))
    old = {**test, "metadata": {"nbgrader": {**test["metadata"]["nbgrader"], "schema_version": 1}}}
    script = {"cell_type": "markdown", "metadata": {}, "source": "<script>alert(1)</script>", "id": "y"}
    rest = [cell for cell in whole["cells"] if cell is not solution]
    untested = [cell for cell in whole["cells"] if not cell["metadata"].get("nbgrader", {}).get("grade")]
    cells = {
        "question": [*whole["cells"], {**code, "source": "np.sort?"}],
        "syntax": [*rest, {**solution, "source": "def rounds(group:\n"}],
        "twice": [*whole["cells"], test, test],
        "solved_twice": [*whole["cells"], {**solution, "source": right}],
        "no_tests": untested,
        "old_marks": [*rest, old, solution],
        "script": [script, *whole["cells"]],
        "half": [*whole["cells"], {**code, "source": "x = '\ud800'"}, {**script, "source": "\udfff"}],
        "odd_marks": [*whole["cells"], {**code, "source": "1", "metadata": {"nbgrader": {"grade_id": [1]}}}],
        "odd_kind": [*whole["cells"], {**code, "source": "1", "cell_type": "nothing"}],
    }
    texts = {name: json.dumps({**whole, "cells": own}) for name, own in cells.items()}
    texts |= {"no_json": "{", "no_cells": "{}", "deep": "[" * 100_000, "empty": "", "number": "1"}
    for name, text in texts.items():
        target = course / "submitted" / name / "prefix_sum"
        target.mkdir(parents=True)
        (target / "prefix_sum.ipynb").write_text(text)
        (target / "timestamp.txt").write_text("the day before yesterday")
    (course / "submitted" / "other_name" / "prefix_sum").mkdir(parents=True)
    (course / "submitted" / "other_name" / "prefix_sum" / "mine.ipynb").write_text(texts["twice"])
    none = {"syntax", "no_json", "no_cells", "deep", "empty", "number", "other_name"}
    return {name: 0.0 if name in none else 11.0 for name in [*texts, "other_name"]}


def test_a_course_goes_through_nbgrader(tmp_path: Path) -> None:
    pytest.importorskip("nbgrader")
    from labkit.grading.nbgrader_course import grade_course, release_course

    course = tmp_path / "course"
    for kept in ("source", "nbgrader_config.py"):
        copy = shutil.copytree if (COURSE / kept).is_dir() else shutil.copy
        course.mkdir(exist_ok=True)
        copy(COURSE / kept, course / kept)
    assert [path.stem for path in release_course(course)] == sorted(ASSIGNMENTS)
    sources = {f"{s.kind}_{s.name}": s.source for s in SUBMISSIONS}
    mark = tmp_path / "a-kernel-has-run-this"
    runs_on_import = f"open({str(mark)!r}, 'w').write('x')\n"
    _submit(course, "ada", "prefix_sum", sources["good_hillis"] + f"\n{runs_on_import}")
    _submit(course, "bob", "prefix_sum", sources["wrong_wrong_side"])
    _submit(course, "eve", "prefix_sum", "raise SystemExit\n")
    _submit(course, "mallory", "prefix_sum", sources["hostile_schedule_forgery"], tampers=True)
    _submit(course, "ada", "broadcast", sources["good_binomial"])
    _submit(course, "bob", "broadcast", sources["good_binary_tree"])
    _submit(course, "mallory", "broadcast", sources["hostile_polls"], tampers=True)
    poisoned = _submit_poisoned(course)
    grade_course(course, jobs=2)
    with (course / "grades.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["assignment"] in ("broadcast", "prefix_sum")]
    found = {(row["student_id"], row["assignment"]): float(row["score"]) for row in rows}
    for student, score in poisoned.items():
        assert found.pop((student, "prefix_sum")) == score, student
        found.pop((student, "broadcast"))
        said = (course / "feedback" / student / "prefix_sum" / "prefix_sum.html").read_text()
        assert "<script>alert" not in said
        assert "cannot be graded" in said or "not Python" in said or "Proved" in said, student
    assert found == {
        ("ada", "prefix_sum"): 11, ("bob", "prefix_sum"): 9, ("eve", "prefix_sum"): 0,
        ("mallory", "prefix_sum"): 0,
        ("ada", "broadcast"): 13, ("bob", "broadcast"): 12, ("eve", "broadcast"): 0,
        ("mallory", "broadcast"): 0,
    }  # fmt: skip
    assert {row["max_score"] for row in rows if row["assignment"] == "broadcast"} == {"12.0"}, "bonus on top"
    page = (course / "feedback" / "bob" / "prefix_sum" / "prefix_sum.html").read_text()
    assert "Counterexample" in page
    assert not mark.exists(), "no cell of a submission may run in a kernel"
