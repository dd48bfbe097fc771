"""A course in nbgrader: ``python -m labkit.grading.nbgrader_course new|release|grade FOLDER``.

nbgrader grades one submission after another. Here the long part, running submissions, is done first, several
at a time (`grade_folder`); nbgrader then finds the grades kept, and one process alone writes its database.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path

from labkit.errors import DataError, LabkitError
from labkit.grading.assignment import Assignment
from labkit.grading.classroom import write_dashboard
from labkit.grading.clean import clean_name
from labkit.grading.find import find_assignment
from labkit.grading.folder import Found, grade_folder
from labkit.grading.grade import Grade
from labkit.grading.ipynb.source import add_assignment
from labkit.grading.nbgrader_prepare import prepare, student_id
from labkit.grading.page import number
from labkit.grading.submission import read_submission
from labkit.process.child import ChildProcess, module_words
from labkit.process.watchdog import die_with_parent

__all__ = ["assignments_of", "grade_course", "main", "name_checks", "release_course", "submissions_of"]


def assignments_of(course: Path) -> list[str]:
    """Return the assignments that a course has the sources of."""
    found = sorted(path.parent.name for path in (course / "source").glob("*/*.ipynb"))
    if not found:
        raise DataError(f"{str(course)!r} has no source/<assignment>/<assignment>.ipynb")
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
            found[student] = DataError(f"there is no {path.name}; the folder has: {names or 'nothing'}")
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
            module_words("nbgrader", *arguments), environment=_environment(), cwd=course, stdout=words,
            stderr=subprocess.STDOUT, preexec_fn=partial(die_with_parent, os.getpid()),
        ) as done:  # fmt: skip
            done.wait(None)
            code = done.code
        words.seek(0)
        said = "\n".join(words.read().decode("utf-8", "replace").strip().splitlines()[-8:])
    if code != 0:
        raise DataError(f"nbgrader {' '.join(arguments)} failed:\n{said}")


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
        raise DataError(f"nothing in {str(course / 'submitted')!r}: put <student>/<assignment>/ there")
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
    parser.add_argument("command", choices=["new", "release", "grade"])
    parser.add_argument("course", type=Path, nargs="?", default=Path("course"))
    parser.add_argument("file", type=Path, nargs="?", help="of `new`: a Python file with an ASSIGNMENT")
    parser.add_argument("--jobs", type=int, default=2, help="submissions graded at a time")
    arguments = parser.parse_args(argv)
    course = arguments.course.resolve()
    began = time.monotonic()
    try:
        if arguments.command == "new":
            if arguments.file is None:
                raise DataError("which Python file has the ASSIGNMENT? make course-new FILE=mine.py")
            print(*add_assignment(course, arguments.file), sep="\n")
        elif arguments.command == "release":
            print(*release_course(course), sep="\n")
        else:
            grade_course(course, arguments.jobs)
            print(f"grades: {course / 'grades.csv'}\nfeedback: {course / 'feedback'}")
            print(f"the class, for you alone: {course / '*.class.html'}")
    except LabkitError as error:
        print(error, file=sys.stderr)
        return 3
    print(f"{time.monotonic() - began:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
