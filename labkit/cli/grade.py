"""``labkit grade``: a folder of submissions, graded in the sandbox."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from labkit.errors import CacheWarning, DataError
from labkit.grading.page import Grade, number
from labkit.registry import course_files

__all__ = ["configure", "execute"]

_EPILOG = """\
A submission is a .py file or a notebook named after its student, or a folder named after the student with one
file in it. Each is graded in separate, sandboxed processes (labkit doctor shows what this machine supports),
so one submission cannot affect another. Finished grades are kept: a second call grades only what has changed.

exit code: 0 all were graded, 1 some could not be graded (their status shows why), 3 bad input or machine

examples:
  labkit grade submissions/ --assignment sort --jobs 2 --csv grades.csv --feedback feedback/
  labkit grade submissions/ --assignment deadlock --jobs 2 --dashboard class.html
  labkit grade ada.py --assignment broadcast
  labkit grade submissions/ --assignment my_assignment.py --secret-file course.secret --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit grade``."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("submissions", help="a folder of submissions, or one submission")
    add(
        "--assignment",
        required=True,
        metavar="A",
        help=", ".join(course_files("assignments")) + ", or a Python file with an ASSIGNMENT",
    )
    add(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="number of submissions graded in parallel (default: 1)",
    )
    add("--csv", metavar="FILE", help="write a CSV file with one line for each student")
    add("--feedback", metavar="FOLDER", help="write a feedback page for each student")
    add(
        "--dashboard",
        metavar="FILE",
        help="write a page about the class, for you: which checks fail most, who asked for the grader's "
        "files, which submissions are alike",
    )
    add(
        "--secret-file",
        metavar="FILE",
        help="file with the secret of the course, from which the inputs of each student are drawn",
    )
    add(
        "--kept",
        metavar="FOLDER",
        help="folder of finished grades (default: a folder in your home, outside the submissions)",
    )
    add("--fresh", action="store_true", help="grade all of them again")
    add(
        "--uncontained",
        action="store_true",
        help="grade even if this machine cannot sandbox submissions (only for trusted code)",
    )
    add("--json", action="store_true", help="print one JSON object and nothing else")


def execute(arguments: argparse.Namespace) -> int:
    """Grade, print, write; 1 if some could not be graded.

    Raises LabkitError: For input that cannot be used.
    """
    from labkit.grading.assignment import find_assignment
    from labkit.grading.dashboard import write_dashboard
    from labkit.grading.folder import find_submissions, grade_folder, kept_folder, write_csv, write_feedback
    from labkit.grading.sandbox import Sandbox

    if arguments.jobs < 1:
        raise DataError(f"--jobs must be at least 1, got {arguments.jobs}", code="out-of-range")
    assignment = find_assignment(arguments.assignment)
    submissions = find_submissions(arguments.submissions)
    kept = None
    if not arguments.fresh:
        kept = Path(arguments.kept or kept_folder(arguments.submissions)) / assignment.name
    _require_room(arguments)
    for sentence in Sandbox.look().missing:
        print(f"this machine lacks: {sentence}", file=sys.stderr)
    with warnings.catch_warnings():
        warnings.simplefilter("always", CacheWarning)
        warnings.showwarning = _warn
        grades = grade_folder(
            submissions,
            assignment,
            jobs=arguments.jobs,
            secret=_secret(arguments.secret_file),
            accepts_weak=arguments.uncontained,
            kept=kept,
            progress=_say,
        )
    code = int(any(grade.status != "graded" for grade in grades))
    if arguments.json:
        print(json.dumps({"grades": [grade.to_dict() for grade in grades], "exit": code}, ensure_ascii=False))
    else:
        _print(grades)
    sys.stdout.flush()  # before any file is written: the grades are there, whatever happens to the files
    outputs: list[tuple[str | None, Callable[[str], None]]] = [
        (arguments.csv, lambda path: write_csv(grades, path)),
        (arguments.feedback, lambda path: write_feedback(grades, path)),
        (arguments.dashboard, lambda path: write_dashboard(Path(path), grades, assignment, submissions)),
    ]
    failed = [text for path, write in outputs if path and (text := _written(path, write))]
    if failed:
        raise DataError(f"{'; '.join(failed)}; all grades are printed above", code="partly-failed")
    return code


def _written(path: str, write: Callable[[str], None]) -> str:
    """Write a file; return what went wrong."""
    try:
        write(path)
    except OSError as error:
        return f"cannot write {path}: {error.strerror or error}"
    return ""


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del category, filename, lineno, file, line
    print(f"labkit grade: {message}", file=sys.stderr)


def _require_room(arguments: argparse.Namespace) -> None:
    """Refuse what could not be written, before anything is graded."""
    for folder, option in ((arguments.kept, "--kept"), (arguments.feedback, "--feedback")):
        if not folder:
            continue
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):  # there may be room when all are graded
                continue
            raise DataError(
                f"cannot write in {folder!r}: {error.strerror}; give {option} FOLDER", code="unwritable-file"
            ) from error
        if not os.access(folder, os.W_OK):
            raise DataError(f"cannot write in {folder!r}; give {option} FOLDER", code="unwritable-file")
    for file, option in ((arguments.csv, "--csv"), (arguments.dashboard, "--dashboard")):
        if file and not Path(file).resolve().parent.is_dir():
            raise DataError(
                f"the folder of {file!r} does not exist; give {option} FILE in one that does",
                code="missing-file",
            )
        if file and Path(file).is_dir():
            raise DataError(
                f"{file!r} is a folder; give {option} the name of a file", code="wrong-kind-of-file"
            )


def _secret(path: str | None) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the secret {path!r} cannot be read: {error}", code="unreadable-file") from error


def _say(grade: Grade, done: int, every: int) -> None:
    what = (
        f"{number(grade.points)} of {number(grade.max_points)} points, {grade.seconds:.1f} s"
        if grade.status == "graded"
        else f"NOT GRADED: {grade.message}"
    )
    print(f"[{done}/{every}] {grade.student}: {what}", file=sys.stderr, flush=True)


#: characters of a student's name; a longer one shifts its own row only
_USUAL = 40


def _print(grades: list[Grade]) -> None:
    if len(grades) == 1:
        print(grades[0].text())
        return
    width = max([len("student"), *(len(grade.student) for grade in grades if len(grade.student) <= _USUAL)])
    print(f"{'student':<{width}}  points  of  not passed")
    for grade in grades:
        if grade.status != "graded":
            print(f"{grade.student:<{width}}  not graded: {grade.message}")
            continue
        missed = [
            result.name for result in grade.results if result.status != "passed" and not result.is_bonus
        ]
        points, most = number(grade.points), number(grade.max_points)
        print(f"{grade.student:<{width}}  {points:>6}  {most:>2}  {', '.join(missed) or '-'}")
    walls = {grade.containment for grade in grades if grade.containment}
    for wall in sorted(walls):
        print(wall)
