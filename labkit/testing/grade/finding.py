"""Assignments by name or file."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from labkit.errors import DataError
from labkit.testing.grade.assignment import Assignment

__all__ = ["find_assignment"]


def find_assignment(name: str | os.PathLike[str] | Assignment) -> Assignment:
    """Return an assignment.

    Parameters
    ----------
    name : str, path or Assignment
        One of those shipped (broadcast, sort, prefix_sum), or a Python file of the teacher's with an
        ``ASSIGNMENT`` in it.

    Raises
    ------
    DataError
        It cannot be found.
    """
    if isinstance(name, Assignment):
        return name
    if str(name).endswith(".py"):
        return _from_file(Path(name))
    from labkit.testing.assignments import ASSIGNMENTS

    if str(name) not in ASSIGNMENTS:
        raise DataError(
            f"no assignment is called {str(name)!r}; there are {', '.join(ASSIGNMENTS)}, and files "
            "that end in .py with an ASSIGNMENT in them"
        )
    return ASSIGNMENTS[str(name)]


def _from_file(path: Path) -> Assignment:
    spec = importlib.util.spec_from_file_location(f"assignment_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise DataError(f"the assignment {str(path)!r} does not exist or cannot be read")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise DataError(f"the assignment {str(path)!r} cannot be loaded: {error}") from error
    found = getattr(module, "ASSIGNMENT", None)
    if not isinstance(found, Assignment):
        raise DataError(f"{str(path)!r} has no ASSIGNMENT = Assignment(...)")
    return found
