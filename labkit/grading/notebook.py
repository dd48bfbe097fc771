"""The line that a test cell of an assignment has: ``points("sort", "easy", parallel_sort)``.

In a student's notebook it tries the function out, shows what it found, and is worth the points:
nbgrader takes a cell's last number as partial credit. A bonus check's cell has 0 points in nbgrader, so that
the sum to reach stays unchanged, and no value. When submissions are graded,
`labkit.grading.nbgrader_plugin` does not run it, nor anything else of the notebook: it grades the
source in the sandbox.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.grading.assignment import find_assignment

if TYPE_CHECKING:
    from labkit.grading.page import Grade

__all__ = ["points"]


def points(
    assignment: str, check: str, function: Callable[..., object], on: str | None = None
) -> float | None:
    """Try one check of an assignment on a function; show what it found, and return the points."""
    found = find_assignment(assignment, Path.cwd())
    is_bonus = found.check_named(check).is_bonus
    grade = found.try_out(function, on, only=[check])
    _show(grade)
    return None if is_bonus else grade.points


def _show(grade: Grade) -> None:
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
