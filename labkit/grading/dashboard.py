"""A page for the teacher about a class: points, checks that fail most, what was asked for, what is alike."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from labkit.errors import DataError
from labkit.grading.assignment import Assignment
from labkit.grading.folder import Found
from labkit.grading.page import Grade, number
from labkit.grading.result import clean_name
from labkit.grading.similar import similar
from labkit.grading.submission import read_submission
from labkit.text.files import replace_file
from labkit.text.html import render
from labkit.text.rank_output import clean

__all__ = ["dashboard", "write_dashboard"]

#: what of the notes on attempts is the grader's, a solution's or another process's, and not just a file
_GRADERS = re.compile(
    r"grading|algorithms|solution|course|\.ipynb|labkit-|/proc|/sys|/etc|/root|/home|\.\.|frames|"
    r"objects of the|memory|traces|watches|signal|process|program"
)
_MOST_ROWS = 100


def dashboard(
    grades: Sequence[Grade],
    assignment: Assignment,
    submissions: Mapping[str, Found] | None = None,
    given: Sequence[str] = (),
) -> str:
    """Return a page of HTML about a class, without scripts and links.

    `submissions`: The files that were graded: they are compared with each other.
    `given`: Sources that everybody was given.
    """
    graded = [grade for grade in grades if grade.status == "graded"]
    alike = similar(_sources(submissions or {}, assignment), given)
    return render(
        "grading/templates/dashboard.html.j2",
        assignment=assignment,
        most=number(assignment.max_points),
        count=len(grades),
        points=_points(graded, assignment),
        checks=_checks(graded, assignment),
        causes=_causes(graded),
        attempts=_attempts(grades),
        alike=alike,
        has_sources=submissions is not None,
        percent=lambda share: f"{share:.0%}",
        ungraded=[(grade.student, grade.message) for grade in grades if grade.status != "graded"],
        students=sorted(graded, key=lambda grade: (-grade.points, grade.student)),
        number=number,
    )


def write_dashboard(
    path: Path,
    grades: Sequence[Grade],
    assignment: Assignment,
    submissions: Mapping[str, Found],
    given: Sequence[str] = (),
) -> None:
    """Write the page.

    Raises OSError.
    """
    replace_file(path, dashboard(grades, assignment, submissions, given))


def _sources(submissions: Mapping[str, Found], assignment: Assignment) -> dict[str, str]:
    found = {}
    for student, path in submissions.items():
        try:
            if isinstance(path, Path):
                found[clean_name(student)] = read_submission(path, assignment.functions)
        except DataError:  # it has its own feedback
            continue
    return found


def _points(grades: Sequence[Grade], assignment: Assignment) -> dict[str, Any]:
    """Return mean, median and how many submissions reach each tenth of the points."""
    reached = [grade.points for grade in grades]
    if not reached:
        return {"bars": []}
    most = assignment.max_points or 1.0
    tenths = Counter(min(int(10 * points / most), 10) for points in reached)
    highest = max(tenths.values())
    bars = [
        {
            "label": f"{10 * t} %" if t == 10 else f"{10 * t} to {10 * t + 9} %",
            "count": tenths[t],
            "width": round(100 * tenths[t] / highest),
        }
        for t in range(11)
    ]
    return {"bars": bars, "mean": number(mean(reached)), "median": number(median(reached))}


def _checks(grades: Sequence[Grade], assignment: Assignment) -> list[dict[str, Any]]:
    """Return for each check how many failed it, the most failed first."""
    rows = []
    for check in assignment.checks:
        status = Counter(r.status for grade in grades for r in grade.results if r.name == check.name)
        total = sum(status.values())
        share = status["failed"] / total if total else 0.0
        rows.append(
            {
                "title": check.title,
                "name": check.name,
                "is_bonus": check.is_bonus,
                "total": total,
                "failed": status["failed"],
                "partial": status["partial"],
                "passed": status["passed"],
                "share": share,
            }
        )
    return sorted(rows, key=lambda row: (row["is_bonus"], -row["share"], row["name"]))


def _causes(grades: Sequence[Grade]) -> list[tuple[str, int, list[str]]]:
    """Return what is said at the first checks that are not passed, without numbers."""
    students: dict[str, list[str]] = {}
    for grade in grades:
        failed = next((r for r in grade.results if r.status != "passed" and not r.is_bonus), None)
        if failed is not None:
            students.setdefault(_cause(failed.feedback), []).append(grade.student)
    rows = sorted(students.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(cause, len(names), names[:12]) for cause, names in rows[:12]]


def _cause(feedback: str) -> str:
    """Return the sentence that a piece of feedback begins with, without its case, numbers and values."""
    lines = feedback.partition("\nprinted by the program:")[0].splitlines() or [""]
    first = re.sub(r"^(Smallest failing case: .*?|Right in all \d+ cases, [^:]*): ", "", lines[0])
    raised = [line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception|Exit|Interrupt)\b", line)]
    if "raised an exception" in first and raised:
        first = f"{first.rstrip(':')}: {raised[-1]}"
    elif first.endswith(":"):
        # A head alone says too little: deadlocks differ by the calls that ranks wait in.
        waits = (re.match(r"  rank \d+: (\w+)", line) for line in lines)
        calls = sorted({found[1] for found in waits if found})
        if calls:
            first = f"{first} ranks wait in {', '.join(calls)}"
        elif lines[1:2] != ["Traceback (most recent call last):"]:  # everybody's is another one
            first = f"{first} {_sentence(lines[1:])}"
        first = first.rstrip(" :")
    first = re.sub(r"\[.*", "...", re.sub(r" \(rank \d+ of \d+\)", "", first))
    return clean(re.sub(r"\d[\d.,e+-]*", "#", first))[:160]


def _sentence(lines: Sequence[str]) -> str:
    """Return the first sentence of lines that were broken somewhere."""
    text = " ".join(line.strip() for line in itertools.takewhile(lambda line: line[:2] != "  ", lines))
    return text.partition(". ")[0]


def _attempts(grades: Sequence[Grade]) -> list[dict[str, Any]]:
    """Return who asked for what ranks are not given; those that look for the grader first."""
    rows = []
    for grade in grades:
        telling = [note for note in grade.attempts if _GRADERS.search(note)]
        other = [note for note in grade.attempts if note not in telling]
        if telling or other:
            rows.append(
                {"student": grade.student, "telling": telling, "other": other, "points": number(grade.points)}
            )
    return sorted(rows, key=lambda row: (not row["telling"], row["student"]))[:_MOST_ROWS]
