"""Judges what an algorithm does: its results, its messages and rounds, how its time grows, and that it ends.

An `Assignment` names the function that students write and lists its checks with their points. `grade`
runs a submission in the sandbox (`labkit.grading.sandbox` says why its verdict can be trusted, and what
is not contained) and gives a `Grade`: points and feedback for each check. `Assignment.try_out` judges a
function in this process, on simulated machines or on real MPI: for students' own trials.
"""

from __future__ import annotations

import os

from labkit.grading.assignment import Assignment, Check, find_assignment
from labkit.grading.checks import Bound, Correct, Costs, Scaling
from labkit.grading.page import Grade
from labkit.grading.result import CheckResult, Verdict
from labkit.grading.schedules import Proved, ScheduleCosts, Task
from labkit.grading.seeds import student_seed
from labkit.grading.submission import notebook_source, read_submission
from labkit.grading.trial import Case, Trial

__all__ = [
    "Assignment",
    "Bound",
    "Case",
    "Check",
    "CheckResult",
    "Correct",
    "Costs",
    "Grade",
    "Proved",
    "Scaling",
    "ScheduleCosts",
    "Task",
    "Trial",
    "Verdict",
    "find_assignment",
    "grade",
    "notebook_source",
    "read_submission",
    "student_seed",
]


def grade(
    submission: str | os.PathLike[str],
    assignment: str | os.PathLike[str] | Assignment,
    *,
    student: str | None = None,
    secret: str = "",
    accepts_weak: bool = False,
) -> Grade:
    """Grade one submission, a ``.py`` file or a notebook, in the sandbox.

    Parameters
    ----------
    submission : path
    assignment : str, path or Assignment
        A shipped assignment's name, a Python file with an ``ASSIGNMENT``, or the assignment itself.
    student : str, optional
        Default: the file's name without its ending.
    secret : str
        The course's; with the student's name it gives the student's own inputs.
    accepts_weak : bool
        Run it also where the machine cannot contain it.

    Returns
    -------
    Grade
        What is wrong with the submission is in it. A submission that cannot be read has 0 points.

    Raises
    ------
    DataError
        The assignment does not exist.
    MachineError
        The sandbox does not work here.
    """
    from labkit.grading.folder import grade_file

    return grade_file(submission, find_assignment(assignment), student, secret, accepts_weak)
