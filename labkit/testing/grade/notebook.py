"""The line that a test cell of an assignment has: ``points("sort", "easy", parallel_sort)``.

In a student's notebook it tries the function out, shows what it found, and is worth the points:
nbgrader takes a cell's last number as partial credit. When submissions are graded,
`labkit.testing.grade.nbgrader_plugin` does not run it, nor anything else of the notebook: it grades the
source in the sandbox.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.testing.grade.finding import find_assignment

__all__ = ["points"]


def points(assignment: str, check: str, function: Callable[..., Any], on: str | None = None) -> float:
    """Try one check of an assignment on a function; show what it found, and return the points.

    Parameters
    ----------
    assignment : str
        As for `find_assignment`.
    check : str
        The check's name.
    function : callable
    on : str, optional
        ``"mpi"`` for real MPI, where results are judged but no counts and times.
    """
    found = find_assignment(assignment)
    found.check_named(check)
    grade = found.try_out(function, on, only=[check])
    _show(grade)
    return grade.points


def _show(grade: Any) -> None:
    try:
        from IPython.core.getipython import get_ipython
        from IPython.display import display
    except ImportError:
        print(grade.text())
        return
    if get_ipython() is None:
        print(grade.text())
    else:
        display(grade)
