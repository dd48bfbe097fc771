"""A course in nbgrader: ``python -m labkit.grading.nbgrader_course new|release|grade FOLDER``.

nbgrader grades one submission after another. Here the long part, running submissions, is done first, several
at a time (`grade_folder`); nbgrader then finds the grades kept, and one process alone writes its database.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path

from labkit.errors import DataError, LabkitError
from labkit.grading.assignment import Assignment, assignment_names, find_assignment
from labkit.grading.dashboard import write_dashboard
from labkit.grading.folder import Found, grade_folder
from labkit.grading.nbgrader_prepare import prepare, student_id
from labkit.grading.page import Grade, number
from labkit.grading.result import clean_name
from labkit.grading.schedules import Proved, ScheduleCosts
from labkit.grading.submission import read_submission
from labkit.process.child import ChildProcess, module_words
from labkit.process.watchdog import die_with_parent

__all__ = [
    "add_assignment",
    "assignments_of",
    "grade_course",
    "main",
    "name_checks",
    "release_course",
    "source_notebook",
    "submissions_of",
]


# The teacher's notebook of an assignment, made from its checks; nbgrader makes the students' one from it.


#: of a custom course
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

Each cell tries one property, on small inputs first, and prints what it found; its value is the points. When \
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
        raise DataError(
            f"an assignment called {name!r} comes with labkit; give yours another name=", code="name-taken"
        )
    if not name.isidentifier():
        raise DataError(
            f"the assignment's name={name!r} becomes a folder: letters, digits and _ only",
            code="malformed-name",
        )
    folder = course / "source" / name
    notebook, checks = folder / f"{name}.ipynb", folder / f"{name}.py"
    if notebook.exists():
        raise DataError(
            f"{str(notebook)!r} exists already: edit it, or move it away first", code="name-taken"
        )
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


def source_notebook(assignment: Assignment) -> dict[str, object]:
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
    for position, cell in enumerate(cells, 1):
        cell["id"] = f"{name[:48]}-{position:02d}"
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


def _marks(name: str, part: str, **marks: object) -> dict[str, object]:
    known = {"task": False, "grade": False, "locked": False, "solution": False, **marks}
    return {"nbgrader": {"schema_version": 3, "grade_id": f"{name}_{part}", **known}}


def _cell(kind: str, source: str, metadata: Mapping[str, object] | None = None) -> dict[str, object]:
    return {"cell_type": kind, "id": "", "metadata": metadata or {}, "source": source}


def _markdown(name: str, part: str, source: str) -> dict[str, object]:
    return _cell("markdown", source, _marks(name, part, locked=True))


def _code(source: str, metadata: dict[str, object] | None = None) -> dict[str, object]:
    return {**_cell("code", source, metadata), "execution_count": None, "outputs": []}


def assignments_of(course: Path) -> list[str]:
    """Return the assignments that a course has the sources of."""
    found = sorted(path.parent.name for path in (course / "source").glob("*/*.ipynb"))
    if not found:
        raise DataError(f"{str(course)!r} has no source/<assignment>/<assignment>.ipynb", code="missing-file")
    return list(dict.fromkeys(found))


def submissions_of(course: Path, assignment: str) -> dict[str, Found]:
    """Return the submitted notebooks of an assignment, by student; or what is wrong with a submission."""
    found: dict[str, Found] = {}
    for folder in sorted((course / "submitted").glob(f"*/{assignment}")):
        student, path = student_id(folder.parent.name), folder / f"{assignment}.ipynb"
        found[student] = path
        if not path.is_file() or path.is_symlink():
            try:
                names = ", ".join(clean_name(one.name) for one in sorted(folder.iterdir())[:8])
            except OSError as error:
                names = str(error.strerror)
            found[student] = DataError(
                f"there is no {path.name}; the folder has: {names or 'nothing'}", code="missing-file"
            )
    return found


def _environment() -> dict[str, str]:
    """Let nbgrader find alembic and the templates, also where the environment is not activated."""
    found = dict(os.environ, PYTHONWARNINGS="ignore")
    folders = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    spec = importlib.util.find_spec("nbgrader")
    if spec is not None and spec.origin is not None:
        prefix = Path(spec.origin).parents[4]
        folders.insert(1, str(prefix / "bin"))
        data = [os.environ.get("JUPYTER_PATH", ""), str(prefix / "share" / "jupyter")]
        found["JUPYTER_PATH"] = os.pathsep.join(filter(None, data))
    found["PATH"] = os.pathsep.join(folders)
    return found


def _nbgrader(course: Path, *arguments: str) -> None:
    """Run one of nbgrader's commands in the course."""
    with tempfile.TemporaryFile() as words:
        with ChildProcess(
            module_words("nbgrader", *arguments),
            environment=_environment(),
            cwd=course,
            stdout=words,
            stderr=subprocess.STDOUT,
            preexec_fn=partial(die_with_parent, os.getpid()),
        ) as done:
            done.wait(None)
            code = done.code
        words.seek(0)
        said = "\n".join(words.read().decode("utf-8", "replace").strip().splitlines()[-8:])
    if code != 0:
        raise DataError(f"nbgrader {' '.join(arguments)} failed:\n{said}", code="tool-failed")


def release_course(course: Path) -> list[Path]:
    """Write the students' version of every assignment; the notebooks."""
    for assignment in assignments_of(course):
        _nbgrader(course, "generate_assignment", assignment, "--force")
    return sorted((course / "release").glob("*/*.ipynb"))


def grade_course(course: Path, jobs: int = 1) -> dict[str, list[Grade]]:
    """Grade what was submitted, write it into nbgrader's database, and write the feedback."""
    secret_file = course / "course.secret"
    secret = secret_file.read_text(encoding="utf-8").strip() if secret_file.exists() else ""
    found: dict[str, list[Grade]] = {}
    for name in assignments_of(course):
        submitted = submissions_of(course, name)
        if not submitted:
            continue
        assignment = find_assignment(name, course / "source" / name)
        kept = course / ".labkit-grades" / name
        found[name] = grade_folder(submitted, assignment, jobs=jobs, secret=secret, kept=kept, progress=_say)
        write_dashboard(
            course / f"{name}.class.html", found[name], assignment, submitted, _given(course, name)
        )
        prepared = course / ".labkit-prepared"
        prepare(course, name, submitted, prepared)
        _nbgrader(
            course, "autograde", name, "--force", f"--CourseDirectory.submitted_directory={prepared.name}"
        )
        shutil.rmtree(prepared, ignore_errors=True)
        _nbgrader(course, "generate_feedback", name, "--force")
        for page in (course / "feedback").glob(f"*/{name}/{name}.html"):
            page.write_text(name_checks(page.read_text(encoding="utf-8"), assignment), encoding="utf-8")
    if not found:
        raise DataError(
            f"nothing in {str(course / 'submitted')!r}: put <student>/<assignment>/ there",
            code="missing-file",
        )
    _nbgrader(course, "export", "--to", str(course / "grades.csv"))
    return found


def _given(course: Path, name: str) -> list[str]:
    """Return the source that everybody was given, for the comparison of submissions."""
    try:
        return [read_submission(course / "release" / name / f"{name}.ipynb")]
    except DataError:
        return []


def name_checks(page: str, assignment: Assignment) -> str:
    """Return a feedback page whose list of "Test cell (Score: 1.0 / 2.0)" says which check each line is."""
    lines = rf'<a href="#{re.escape(assignment.name)}_(\w+)">Test cell</a> \(Score: ([\d.]+) / ([\d.]+)\)'
    checks = {check.name: check for check in assignment.checks}

    def named(found: re.Match[str]) -> str:
        check = checks.get(found[1])
        if check is None:
            return found[0]
        of = f"bonus, at most {number(check.points)}" if check.is_bonus else f"of {found[3]}"
        link = f'<a href="#{assignment.name}_{check.name}">{escape(check.title)}</a>'
        return f"{link} ({found[2]} {of})"

    return re.sub(lines, named, page)


def _say(grade: Grade, done: int, every: int) -> None:
    what = grade.message
    if grade.status == "graded":
        what = f"{number(grade.points)} of {number(grade.max_points)}"
    print(f"{grade.assignment} [{done}/{every}] {grade.student}: {what}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "command",
        choices=["new", "release", "grade"],
        help="add an assignment, write the students' notebooks, or grade what was submitted",
    )
    parser.add_argument(
        "course", type=Path, nargs="?", default=Path("course"), help="folder of the course (default: course)"
    )
    parser.add_argument("file", type=Path, nargs="?", help="of `new`: a Python file with an ASSIGNMENT")
    parser.add_argument("--jobs", type=int, default=2, help="submissions graded at a time")
    arguments = parser.parse_args(argv)
    course = arguments.course.resolve()
    began = time.monotonic()
    try:
        if arguments.command == "new":
            if arguments.file is None:
                raise DataError(
                    "which Python file has the ASSIGNMENT? make course-new FILE=mine.py", code="ambiguous"
                )
            print(*add_assignment(course, arguments.file), sep="\n")
            print("Complete the notebook; then release the assignment.")
        elif arguments.command == "release":
            print(*release_course(course), sep="\n")
        else:
            grade_course(course, arguments.jobs)
            print(f"grades: {course / 'grades.csv'}\nfeedback: {course / 'feedback'}")
            print(f"the class, for you alone: {course / '*.class.html'}")
            print(f"{time.monotonic() - began:.1f} s")
    except LabkitError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
