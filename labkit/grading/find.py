"""Assignments by name or file: those of the course, and a teacher's, are loaded in the same way."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

from labkit.errors import DataError
from labkit.grading.assignment import Assignment
from labkit.process.fingerprint import fingerprint
from labkit.process.imports import program_digests
from labkit.registry import course_files, module_of_file

__all__ = ["assignment_names", "find_assignment"]


def assignment_names() -> list[str]:
    """Return the names of the course's assignments."""
    return list(course_files("assignments"))


def find_assignment(
    name: str | os.PathLike[str] | Assignment, folder: str | os.PathLike[str] | None = None
) -> Assignment:
    """Return an assignment.

    Parameters
    ----------
    name : str, path or Assignment
        One of the course's (`assignment_names`), or a Python file of the teacher's with an ``ASSIGNMENT`` in
        it.
    folder : path, optional
        Where the teacher's own assignments are looked for: ``"total"`` is then also ``total.py`` in there,
        and relative paths begin there. The file is executed: never a folder that students write in, except
        a student's own.

    Raises
    ------
    DataError
        It cannot be found.
    """
    if isinstance(name, Assignment):
        return name
    if str(name).endswith(".py"):
        return _from_file(Path(name) if folder is None else Path(folder, name))
    if str(name) in assignment_names():
        return _of_course(str(name))
    own = None if folder is None or not str(name).isidentifier() else Path(folder, f"{name}.py")
    if own is not None and own.is_file():
        return _from_file(own)
    missing = "" if own is None else f", and {str(own)!r} does not exist"
    raise DataError(
        f"no assignment is called {str(name)!r}; there are {', '.join(assignment_names())}, and files "
        f"that end in .py with an ASSIGNMENT in them{missing}"
    )


@cache
def _of_course(name: str) -> Assignment:
    return _from_file(course_files("assignments")[name], f"labkit.course.assignments.{name}")


def _from_file(path: Path, module: str = "") -> Assignment:
    found = getattr(module_of_file(path, module or f"assignment_{path.stem}"), "ASSIGNMENT", None)
    if not isinstance(found, Assignment):
        raise DataError(f"{str(path)!r} has no ASSIGNMENT = Assignment(...)")
    return replace(found, digest=fingerprint(program_digests(path)))
