"""Every generated submission gets exactly the checks it deserves; a course goes through nbgrader."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from labkit.errors import MachineError
from labkit.grading.assignments import ASSIGNMENTS
from labkit.grading.folder import find_submissions, grade_folder
from labkit.grading.sandbox import Sandbox
from tests.support.submissions import SUBMISSIONS, write

pytestmark = pytest.mark.slow
COURSE = Path(__file__).parents[3] / "course"


@pytest.fixture(autouse=True)
def _needs_a_sandbox() -> None:
    try:
        with Sandbox():
            pass
    except MachineError as error:
        pytest.skip(f"this machine cannot contain submissions: {error}")


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_no_false_pass_and_no_false_fail(name: str, tmp_path: Path) -> None:
    expected = {Path(s.file_name).stem: s.missed for s in SUBMISSIONS if s.assignment == name}
    grades = grade_folder(find_submissions(write(tmp_path)[name]), ASSIGNMENTS[name], jobs=2, secret="test")
    assert {g.student: g.message for g in grades if g.status != "graded"} == {}
    found = {g.student: {r.name for r in g.results if r.status != "passed"} for g in grades}
    assert found == {student: set(missed) for student, missed in expected.items()}


def test_there_are_enough_of_them() -> None:
    assert len(SUBMISSIONS) >= 30
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


def test_a_course_goes_through_nbgrader(tmp_path: Path) -> None:
    pytest.importorskip("nbgrader")
    from labkit.grading.nbgrader_course import grade_course, release_course

    course = tmp_path / "course"
    for kept in ("source", "nbgrader_config.py"):
        copy = shutil.copytree if (COURSE / kept).is_dir() else shutil.copy
        course.mkdir(exist_ok=True)
        copy(COURSE / kept, course / kept)
    assert [path.stem for path in release_course(course)] == ["broadcast", "prefix_sum", "sort"]
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
    grade_course(course, jobs=2)
    with (course / "grades.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["assignment"] != "sort"]
    assert {(row["student_id"], row["assignment"]): float(row["score"]) for row in rows} == {
        ("ada", "prefix_sum"): 11, ("bob", "prefix_sum"): 9, ("eve", "prefix_sum"): 0,
        ("mallory", "prefix_sum"): 0,
        ("ada", "broadcast"): 13, ("bob", "broadcast"): 12, ("eve", "broadcast"): 0,
        ("mallory", "broadcast"): 0,
    }  # fmt: skip
    assert {row["max_score"] for row in rows if row["assignment"] == "broadcast"} == {"12.0"}, "bonus on top"
    page = (course / "feedback" / "bob" / "prefix_sum" / "prefix_sum.html").read_text()
    assert "Counterexample" in page
    assert not mark.exists(), "no cell of a submission may run in a kernel"
