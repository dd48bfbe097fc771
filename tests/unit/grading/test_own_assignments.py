"""Assignments of the teacher's own: found where they belong and nowhere else, with a notebook to complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import DataError
from labkit.grading import CheckResult, Grade, find_assignment
from labkit.grading.folder import _fingerprint
from labkit.grading.nbgrader_course import add_assignment, source_notebook
from labkit.grading.notebook import points
from labkit.grading.submission import notebook_source
from tests.support.course import ASSIGNMENTS
from tests.support.refusals import raises_code

BROADCAST = ASSIGNMENTS["broadcast"]

OWN = '''
from __future__ import annotations

from dataclasses import dataclass

from labkit.grading import Assignment, Case, Correct, Verdict


@dataclass(frozen=True)
class Short:
    """A check of the teacher's own."""

    name: str = "short"
    title: str = "No more than it needs"
    points: float = 2
    is_bonus: bool = True
    needs_simulation: bool = False

    def judge(self, trial):
        return Verdict(1.0, "as short as can be")


def cases(seed):
    yield Case(2, [(1,), (2,)], "one and two")


def oracle(case, results):
    return None if results == [3, 3] else f"the ranks returned {results}"


ASSIGNMENT = Assignment(
    name="total", title="A total", function="total", statement="Write total(comm, x): the sum.",
    checks=[Correct("right", "The right sum", 4, cases, oracle), Short()],
)
'''


def total(comm: Any, x: int) -> Any:
    return comm.allreduce(x)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "total.py"
    path.write_text(OWN)
    return path


def test_it_is_found_by_name_in_its_folder_only(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_assignment("total", file.parent).title == "A total"
    assert find_assignment("total.py", file.parent).digest == find_assignment(file).digest
    monkeypatch.chdir(file.parent)
    with raises_code(DataError, "unknown-name", "'total'"):
        find_assignment("total")
    with raises_code(DataError, "unknown-name"):
        find_assignment("other", file.parent)
    for name in ("../total", "total/total", ""):
        with pytest.raises(DataError):
            find_assignment(name, file.parent / "below")
    (file.parent / "sort.py").write_text("raise SystemExit")
    assert find_assignment("sort", file.parent) is ASSIGNMENTS["sort"]


def test_kept_grades_hold_as_long_as_the_file_does(file: Path) -> None:
    one = find_assignment(file)
    assert _fingerprint("x = 1", one, "") == _fingerprint("x = 1", find_assignment(file), "")
    file.write_text(OWN.replace("[3, 3]", "[4, 4]"))
    assert _fingerprint("x = 1", one, "") != _fingerprint("x = 1", find_assignment(file), "")


def test_students_try_it_beside_their_notebook(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(file.parent)
    assert points("total", "right", total) == 4
    assert points("total", "short", total) is None, "nbgrader refuses a value above the cell's 0 points"
    assert "2 of 2 bonus points" in capsys.readouterr().out


def test_a_course_gets_it(file: Path, tmp_path: Path) -> None:
    course = tmp_path / "hpc"
    written = add_assignment(course, file)
    place = course / "source" / "total"
    assert written == [place / "total.ipynb", place / "total.py", course / "nbgrader_config.py"]
    compile((course / "nbgrader_config.py").read_text(), "config", "exec")
    text = (place / "total.ipynb").read_text()
    assert "def total(comm, x):" in notebook_source(text)
    notebook = json.loads(text)
    marks = [cell["metadata"].get("nbgrader", {}) for cell in notebook["cells"]]
    assert {m["grade_id"]: m["points"] for m in marks if m.get("grade")} == {
        "total_right": 4,
        "total_short": 0,
    }
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    with raises_code(DataError, "name-taken"):
        add_assignment(course, file)
    for bad, code in (("sort", "name-taken"), ("my task", "malformed-name")):
        file.write_text(OWN.replace('name="total"', f'name="{bad}"'))
        with raises_code(DataError, code):
            add_assignment(course, file)


@pytest.mark.parametrize("assignment", ASSIGNMENTS.values(), ids=lambda a: a.name)
def test_the_skeleton_has_the_cells_of_a_course_of_ours(assignment: Any) -> None:
    path = Path(__file__).parents[3] / "course" / "source" / assignment.name / f"{assignment.name}.ipynb"
    ours, made = json.loads(path.read_text()), source_notebook(assignment)
    known = [
        {m["grade_id"]: m for c in nb["cells"] if (m := c["metadata"].get("nbgrader"))} for nb in (ours, made)
    ]
    for name, marks in known[1].items():
        assert known[0][name] == marks
    pytest.importorskip("nbformat").validate(made)


def test_what_a_cell_of_nbgrader_gets() -> None:
    plugin = pytest.importorskip("labkit.grading.nbgrader_plugin", reason="needs nbgrader")
    bonus = CheckResult("b", "B", 1.5, 2.0, "", is_bonus=True)
    assert plugin._score(bonus, 0.0) == 1.5
    assert plugin._score(bonus, 4.0) == 3.0  # a teacher may count it as any other
    assert plugin._score(CheckResult("a", "A", 1.0, 2.0, ""), 5.0) == 2.5
    assert plugin._score(None, 5.0) is None
    failed = Grade("ada", "total", [bonus], status="ungraded", message="no sandbox")
    assert plugin._result(failed, "b") is None
    assert "no sandbox" in plugin._outputs(failed, "b", None, None, 1)[0]["evalue"]


def test_nbgrader_never_takes_the_checks_from_where_it_works(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its working folder may hold what students have handed in."""
    plugin = pytest.importorskip("labkit.grading.nbgrader_plugin", reason="needs nbgrader")
    nbformat = pytest.importorskip("nbformat")
    mark = tmp_path / "ran"
    file.write_text(f"open({str(mark)!r}, 'w').close()\n" + OWN)
    monkeypatch.chdir(file.parent)
    notebook = nbformat.from_dict(source_notebook(BROADCAST))
    for cell in notebook.cells:
        cell.source = cell.source.replace('"broadcast"', '"total"')
    resources = {"nbgrader": {"student": "ada", "assignment": "total"}}
    for source in ("", str(tmp_path / "elsewhere")):
        with raises_code(DataError, "unknown-name", "'total'"):
            plugin.SandboxExecute(source=source).preprocess(notebook, resources)
    assert not mark.exists()


def test_a_feedback_pages_list_names_the_checks() -> None:
    course = pytest.importorskip("labkit.grading.nbgrader_course")
    page = "".join(
        f'<li><a href="#broadcast_{name}">Test cell</a> (Score: {score} / {most})</li>'
        for name, score, most in (("rounds", 2.0, 2.0), ("optimal", 1.0, 0.0), ("strange", 1.0, 2.0))
    )
    named = course.name_checks(page, BROADCAST)
    assert '<a href="#broadcast_rounds">At most 2 ceil(log2 p) rounds</a> (2.0 of 2.0)' in named
    assert '<a href="#broadcast_optimal">Optimal: ceil(log2 p) rounds</a> (1.0 bonus, at most 1)' in named
    assert named.count("Test cell") == 1


def test_reports_show_the_lines_that_they_name() -> None:
    from labkit.grading.bench import _lines_named

    source = "a = 1\n\n    comm.recv(source=1)\n"
    told = "rank 0: recv at submission.py:3 in f\nrank 1: at submission.py:3 in f, submission.py:99 in g"
    assert _lines_named(told, source) == "\n  submission.py:3: comm.recv(source=1)"
    assert _lines_named("Traceback ...\nsubmission.py:3", source) == ""
