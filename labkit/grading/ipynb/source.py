"""The teacher's notebook of an assignment, made from its checks; nbgrader makes the students' one from it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from labkit.errors import DataError
from labkit.grading.assignment import Assignment
from labkit.grading.find import assignment_names, find_assignment
from labkit.grading.schedules import Proved, ScheduleCosts

__all__ = ["CONFIG", "add_assignment", "source_notebook"]

#: of a course of one's own
CONFIG = '''\
"""nbgrader's settings for this course; written by labkit, yours to change."""

from pathlib import Path

from labkit.grading.nbgrader_plugin import AUTOGRADE

here = Path(__file__).parent

c = get_config()  # noqa: F821 - given by traitlets
c.CourseDirectory.course_id = here.name
c.CourseDirectory.root = str(here)
# No cell of a submission runs in a kernel: the sandbox judges its source.
c.Autograde.autograde_preprocessors = AUTOGRADE
c.SandboxExecute.source = str(here / "source")
c.SandboxExecute.kept = str(here / ".labkit-grades")
secret = here / "course.secret"
c.SandboxExecute.secret_file = str(secret) if secret.exists() else ""
'''
_CHECKS = """\
## Checks

Each cell tries one property, on small inputs first, and says what it found; its value is the points. When \
submissions are graded, the same checks run on inputs of your own, on your source alone: cells that only try \
things out do not count."""
_SETUP = "import labkit as lk\nimport numpy as np\nfrom labkit import MPI\n"
_SETUP_SCHEDULE = "import labkit as lk\nfrom labkit.schedule import build, check, whole\n"
_POINTS = "\nfrom labkit.grading.notebook import points"
_BODY = """\
    ### BEGIN SOLUTION
    raise NotImplementedError("the teacher's solution: what stands between these two lines is not released")
    ### END SOLUTION"""


def add_assignment(course: Path, file: Path) -> list[Path]:
    """Give a course an assignment of the teacher's own: its checks, and a notebook to complete."""
    assignment = find_assignment(file)
    name = assignment.name
    if name in assignment_names():
        raise DataError(f"an assignment called {name!r} comes with labkit; give yours another name=")
    if not name.isidentifier():
        raise DataError(f"the assignment's name={name!r} becomes a folder: letters, digits and _ only")
    folder = course / "source" / name
    notebook, checks = folder / f"{name}.ipynb", folder / f"{name}.py"
    if notebook.exists():
        raise DataError(f"{str(notebook)!r} exists already: edit it, or move it away first")
    folder.mkdir(parents=True, exist_ok=True)
    written = [notebook]
    if checks.resolve() != file.resolve():
        shutil.copyfile(file, checks)
        written.append(checks)
    text = json.dumps(source_notebook(assignment), indent=1, ensure_ascii=False)
    notebook.write_text(text + "\n", encoding="utf-8")
    config = course / "nbgrader_config.py"
    if not config.exists():
        config.write_text(CONFIG, encoding="utf-8")
        written.append(config)
    return written


def source_notebook(assignment: Assignment) -> dict[str, Any]:
    """Return the notebook: question, task, set-up, a cell to solve, a trial, a test cell for each check."""
    name = assignment.name
    is_schedule = any(isinstance(check, Proved | ScheduleCosts) for check in assignment.checks)
    setup = (_SETUP_SCHEDULE if is_schedule else _SETUP) + _POINTS
    question = f"# {assignment.title}\n\n**Question.** ...\n\n**Prediction.** ..."
    cells = [
        _markdown(name, "question", question),
        _markdown(name, "task", f"**The task.** {' '.join(assignment.statement.split())}"),
        _code(setup, _marks(name, "setup", locked=True)),
        _code(_stub(assignment), _marks(name, "solution", solution=True)),
        _cell("markdown", "Try it: change the number of ranks, the machine, the data."),
        _code(_trial(assignment, is_schedule)),
        _markdown(name, "checks", _CHECKS),
    ]
    for check in sorted(assignment.checks, key=lambda one: one.is_bonus):  # the bonus at the end
        worth = 0 if check.is_bonus else check.points
        marks = _marks(name, check.name, grade=True, locked=True, points=worth)
        bonus = f" (bonus: {check.points:g})" if check.is_bonus else ""
        line = f'points("{name}", "{check.name}", {getattr(check, "function", "") or assignment.function})'
        cells.append(_code(f"# {check.title}{bonus}\n{line}", marks))
    for number, cell in enumerate(cells, 1):
        cell["id"] = f"{name[:48]}-{number:02d}"
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _stub(assignment: Assignment) -> str:
    """Return the heads of the functions, with the parameters that the statement names, and room in them."""
    return "\n\n\n".join(_head(assignment, function) for function in assignment.functions)


def _head(assignment: Assignment, function: str) -> str:
    found = re.search(rf"\b{re.escape(function)}(\([^()]*\))", assignment.statement)
    head = f"def {function}{found[1] if found else '(comm, ...)'}:"
    try:
        compile(f"{head}\n    pass\n", "head", "exec")
    except SyntaxError:
        head = f"def {function}(comm, *arguments):"
    return f'{head}\n    """{assignment.title}."""\n{_BODY}'


def _trial(assignment: Assignment, is_schedule: bool) -> str:
    if is_schedule:
        return f"# print(check(build(..., {assignment.function}, ranks=4)))"
    return f'# lk.run({assignment.function}, 4, on="star:4", args=(...))'


def _marks(name: str, part: str, **marks: Any) -> dict[str, Any]:
    known = {"task": False, "grade": False, "locked": False, "solution": False, **marks}
    return {"nbgrader": {"schema_version": 3, "grade_id": f"{name}_{part}", **known}}


def _cell(kind: str, source: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"cell_type": kind, "id": "", "metadata": metadata or {}, "source": source}


def _markdown(name: str, part: str, source: str) -> dict[str, Any]:
    return _cell("markdown", source, _marks(name, part, locked=True))


def _code(source: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {**_cell("code", source, metadata), "execution_count": None, "outputs": []}
