"""nbgrader's execution step, replaced: no cell of a submission runs in a kernel, the sandbox judges it.

nbgrader executes a submitted notebook in an ordinary kernel, with the teacher's files, network and
powers, and takes the outputs of its test cells for points: whatever the student's cells changed in that
kernel decides. Here a test cell is not run. Its text, which nbgrader restores from the teacher's
notebook, says which check of which assignment it stands for (``points("sort", "easy",
parallel_sort)``); the check is judged on the source of the student's cells by `labkit.grading`,
outside any kernel, and its points and feedback become the cell's output. Cells of students are shown, but
have no outputs.

A bonus check has a test cell of 0 points: the sum to reach stays, and what the check is worth comes on top as
the cell's score, which a human grader can override as any other. A check that could not be judged is left to
a human grader.

In a course's ``nbgrader_config.py``::

    from labkit.grading.nbgrader_plugin import AUTOGRADE
    c.Autograde.autograde_preprocessors = AUTOGRADE
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat.v4
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    IgnorePattern,
    LimitOutput,
    NbGraderPreprocessor,
    SaveAutoGrades,
)
from nbgrader.utils import is_grade, is_solution
from traitlets import Unicode

from labkit.grading.assignment import Assignment, find_assignment
from labkit.grading.folder import grade_cells, kept_grade, unreadable
from labkit.grading.nbgrader_prepare import UNREADABLE
from labkit.grading.page import Grade, check_html, number
from labkit.grading.result import CheckResult
from labkit.grading.submission import text_of_cells

__all__ = ["AUTOGRADE", "SandboxExecute", "SaveJudgedGrades", "check_of"]

#: in what nbgrader hands from step to step: the scores of the cells that were judged, None: not judged
_SCORES = "labkit_scores"


def check_of(source: str) -> tuple[str, str] | None:
    """Return assignment and check that a test cell stands for, None if it calls no ``points``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "points":
            names = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant)]
            if len(names) == 2 and all(isinstance(name, str) for name in names):
                return str(names[0]), str(names[1])
    return None


class SandboxExecute(NbGraderPreprocessor):  # type: ignore[misc]
    """Judges test cells in the sandbox instead of running the notebook."""

    source = Unicode("", help="Folder of the course's sources: the teacher's own assignments are there.").tag(
        config=True
    )
    kept = Unicode("", help="Folder of grades that `labkit grade` has kept; they are taken from there.").tag(
        config=True
    )
    secret_file = Unicode("", help="File with the course's secret: students' inputs follow from it.").tag(
        config=True
    )

    def preprocess(self, nb: Any, resources: Any) -> tuple[object, object]:
        """Give every test cell its points and feedback."""
        student = resources["nbgrader"]["student"]
        cells = [cell for cell in nb.cells if cell.cell_type == "code"]
        for cell in cells:
            cell.outputs, cell.execution_count = [], None
        tests = [(cell, check_of(cell.source)) for cell in cells if is_grade(cell) and not is_solution(cell)]
        grades: dict[str, Grade] = {}
        scores: dict[str, float | None] = resources["nbgrader"].setdefault(_SCORES, {})
        for count, (cell, found) in enumerate(tests, 1):
            marks = cell.metadata["nbgrader"]
            scores[marks["grade_id"]] = None
            if found is None:
                cell.outputs = [_error("this test cell calls no points(assignment, check, function)")]
                continue
            name, check = found
            if name not in grades:
                # never the working folder: it holds what students have handed in
                folder = Path(self.source, resources["nbgrader"]["assignment"]) if self.source else None
                why = nb.metadata.get(UNREADABLE)
                assignment = find_assignment(name, folder)
                grades[name] = (
                    self._grade(assignment, student, cells)
                    if why is None
                    else unreadable(student, assignment, str(why), self._secret())
                )
            cell.execution_count = count
            result = _result(grades[name], check)
            scores[marks["grade_id"]] = score = _score(result, float(marks["points"]))
            cell.outputs = _outputs(grades[name], check, result, score, count)
        return nb, resources

    def _secret(self) -> str:
        return Path(self.secret_file).read_text(encoding="utf-8").strip() if self.secret_file else ""

    def _grade(self, assignment: Assignment, student: str, cells: list[Any]) -> Grade:
        own = [cell.source for cell in cells if is_solution(cell) or not is_grade(cell)]
        secret = self._secret()
        kept = Path(self.kept) / assignment.name
        earlier = kept_grade(kept, student, text_of_cells(own), assignment, secret) if self.kept else None
        return earlier or grade_cells(own, assignment, student, secret)


def _result(grade: Grade, check: str) -> CheckResult | None:
    """Return what a check gave; None when it was not judged."""
    if grade.status != "graded":
        return None
    return next((result for result in grade.results if result.name == check), None)


def _score(result: CheckResult | None, most: float) -> float | None:
    """Return the points of a cell; a bonus cell has 0 and gets what the check is worth."""
    if result is None:
        return None
    if result.is_bonus and most == 0:
        return result.points
    return most * (result.points / result.max_points if result.max_points else 1.0)


def _outputs(
    grade: Grade, check: str, result: CheckResult | None, score: float | None, count: int
) -> list[object]:
    if result is None or score is None:
        return [_error(f"not graded: {grade.message or f'there is no check {check}'}")]
    part = Grade(grade.student, grade.assignment, [result])
    shown = _output("display_data", {"text/plain": part.text(), "text/html": check_html(result)})
    if result.is_bonus:  # a value above the cell's points would be refused by whoever reads the cell again
        return [shown]
    return [shown, _output("execute_result", {"text/plain": number(score)}, execution_count=count)]


def _output(kind: str, data: dict[str, str] | None = None, **fields: object) -> object:
    return nbformat.v4.new_output(kind, data, **fields)


def _error(text: str) -> object:
    return _output("error", ename="NotGraded", evalue=text, traceback=[text])


class SaveJudgedGrades(SaveAutoGrades):  # type: ignore[misc]
    """Writes the scores that `SandboxExecute` found into nbgrader's database.

    nbgrader's own reads them from the cells' outputs, none above the cell's points: there is no bonus.
    """

    def _add_score(self, cell: Any, resources: Any) -> None:
        scores = resources["nbgrader"].get(_SCORES, {})
        name = cell.metadata["nbgrader"]["grade_id"]
        if name not in scores:
            super()._add_score(cell, resources)
            return
        where = self.notebook_id, self.assignment_id, self.student_id
        grade = self.gradebook.find_grade(name, *where)
        grade.auto_score = scores[name]
        grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
        self.gradebook.db.commit()


#: what nbgrader does with a submission once it is sanitized; its own Execute is not among it
AUTOGRADE = [
    SandboxExecute,
    IgnorePattern,
    LimitOutput,
    SaveJudgedGrades,
    AssignLatePenalties,
    CheckCellMetadata,
]
