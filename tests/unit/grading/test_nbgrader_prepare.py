"""Whatever was submitted, nbgrader reads a sound notebook with the teacher's marks, each once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import DataError

pytest.importorskip("nbgrader")

import nbformat

from labkit.grading.nbgrader_course import submissions_of
from labkit.grading.nbgrader_prepare import UNREADABLE, prepare, student_id
from tests.support.refusals import raises_code


def _marks(grade_id: str, **more: Any) -> dict[str, Any]:
    return {
        "nbgrader": {"schema_version": 3, "grade_id": grade_id, "grade": False, "solution": False, **more}
    }


def _cell(kind: str, source: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"cell_type": kind, "metadata": metadata or {}, "source": source}


TASK = _cell("markdown", "# Task <b>", _marks("task", locked=True))
SOLUTION = _cell("code", "def f(): ...", _marks("solution", solution=True))
TEST = _cell("code", "points('a', 'b', f)", _marks("test", grade=True, locked=True, points=1))


@pytest.fixture
def course(tmp_path: Path) -> Path:
    folder = tmp_path / "release" / "a"
    folder.mkdir(parents=True)
    (folder / "a.ipynb").write_text(
        json.dumps({"cells": [TASK, SOLUTION, TEST], "metadata": {"of": "teacher"}})
    )
    return tmp_path


def _prepared(course: Path, content: Any) -> Any:
    folder = course / "submitted" / "ada" / "a"
    folder.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "a.ipynb").write_text(text)
    prepare(course, "a", submissions_of(course, "a"), course / "to")
    made = nbformat.read(course / "to" / "ada" / "a" / "a.ipynb", as_version=4)
    nbformat.validate(made)
    return made


def _ids(notebook: Any) -> list[str]:
    return [cell.metadata.get("nbgrader", {}).get("grade_id", "") for cell in notebook.cells]


def test_a_sound_notebook_keeps_its_cells_and_marks(course: Path) -> None:
    own = _cell("code", "import this")
    made = _prepared(
        course, {"cells": [TASK, own, {**SOLUTION, "source": ["def f():\n", " return 1"]}, TEST]}
    )
    assert _ids(made) == ["task", "", "solution", "test"]
    assert made.cells[2].source == "def f():\n return 1"
    assert made.metadata == {"of": "teacher"}


@pytest.mark.parametrize(
    ("cells", "ids"),
    [
        ([TASK, SOLUTION, TEST, TEST], ["task", "solution", "test"]),
        ([TASK, SOLUTION, SOLUTION, TEST], ["task", "", "solution", "test"]),
        ([SOLUTION], ["solution", "task", "test"]),
        ([{**TEST, "metadata": _marks("test", schema_version=1)}, SOLUTION, TASK],
         ["test", "solution", "task"]),
        ([_cell("markdown", "", _marks("solution")), TASK, TEST], ["", "task", "test"]),
        ([_cell("code", "1", _marks("mine", grade=True, points=99)), TASK, SOLUTION, TEST],
         ["", "task", "solution", "test"]),
        ([_cell("nonsense", "\ud800", {"nbgrader": {"grade_id": [1]}}), TASK, SOLUTION, TEST],
         ["", "task", "solution", "test"]),
    ],
)  # fmt: skip
def test_every_mark_is_the_teachers_and_there_once(course: Path, cells: Any, ids: list[str]) -> None:
    made = _prepared(course, {"cells": cells})
    assert _ids(made) == ids
    teachers = {
        c["metadata"]["nbgrader"]["grade_id"]: c["metadata"]["nbgrader"] for c in (TASK, SOLUTION, TEST)
    }
    for cell in made.cells:
        assert cell.metadata.get("nbgrader", {}) in (
            {},
            teachers.get(cell.metadata.get("nbgrader", {}).get("grade_id")),
        )


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"cells": 1}', '{"cells": [1]}', "[" * 100_000, "\0"])
def test_what_is_no_notebook_is_the_teachers_with_a_sentence(course: Path, text: str) -> None:
    made = _prepared(course, text)
    assert "a.ipynb is not a notebook that can be read" in made.metadata[UNREADABLE]
    assert made.metadata[UNREADABLE] in made.cells[0].source
    assert _ids(made) == ["", "task", "solution", "test"]


def test_another_name_is_told(course: Path) -> None:
    folder = course / "submitted" / "eve" / "a"
    folder.mkdir(parents=True)
    (folder / "a (1).ipynb").write_text("{}")
    assert str(submissions_of(course, "a")["eve"]) == "there is no a.ipynb; the folder has: a (1).ipynb"


def test_a_students_html_is_text(course: Path) -> None:
    made = _prepared(
        course, {"cells": [_cell("markdown", "a **b** <script>alert(1)</script>"), TASK, SOLUTION, TEST]}
    )
    assert made.cells[0].source == "a **b** &lt;script&gt;alert(1)&lt;/script&gt;"
    assert made.cells[1].source == "# Task <b>"


def test_students_ids_are_plain_and_differ() -> None:
    assert student_id("ada.lovelace-2@x") == "ada.lovelace-2@x"
    odd = ["a b", "a\nb", "a_b", ".ada", "n" * 200, "n" * 201, "caf\udce9", "caf\udcea"]
    made = [student_id(name) for name in odd]
    assert len(set(made)) == len(odd)
    assert all(name.isprintable() and len(name) < 100 and name[0] != "." for name in made)


def test_without_a_teachers_notebook_it_says_which(course: Path) -> None:
    with raises_code(DataError, "unreadable-file", "b.ipynb"):
        prepare(course, "b", {}, course / "to")
