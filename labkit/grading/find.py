"""Assignments by name or file."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path

from labkit.errors import DataError
from labkit.grading.assignment import Assignment
from labkit.process.fingerprint import fingerprint
from labkit.process.imports import program_digests

__all__ = ["find_assignment"]


def find_assignment(
    name: str | os.PathLike[str] | Assignment, folder: str | os.PathLike[str] | None = None
) -> Assignment:
    """Return an assignment.

    Parameters
    ----------
    name : str, path or Assignment
        One of those shipped (`labkit.grading.assignments`), or a Python file of the teacher's with an
        ``ASSIGNMENT`` in it.
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
    from labkit.grading.assignments import ASSIGNMENTS

    if str(name) in ASSIGNMENTS:
        return ASSIGNMENTS[str(name)]
    own = None if folder is None or not str(name).isidentifier() else Path(folder, f"{name}.py")
    if own is not None and own.is_file():
        return _from_file(own)
    beside = "" if own is None else f", and {str(own)!r} does not exist"
    raise DataError(
        f"no assignment is called {str(name)!r}; there are {', '.join(ASSIGNMENTS)}, and files "
        f"that end in .py with an ASSIGNMENT in them{beside}"
    )


def _from_file(path: Path) -> Assignment:
    name = f"assignment_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise DataError(f"the assignment {str(path)!r} does not exist or cannot be read")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses in it look themselves up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise DataError(f"the assignment {str(path)!r} cannot be loaded: {error}") from error
    found = getattr(module, "ASSIGNMENT", None)
    if not isinstance(found, Assignment):
        raise DataError(f"{str(path)!r} has no ASSIGNMENT = Assignment(...)")
    return replace(found, digest=fingerprint(program_digests(path)))
