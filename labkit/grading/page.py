"""A grade as text and as HTML; every text of a submission is escaped."""

from __future__ import annotations

import textwrap

from markupsafe import Markup

from labkit.grading.result import CheckResult, Marks
from labkit.text.html import PRE, render

__all__ = ["Grade", "amount", "check_html", "grade_html", "grade_page", "grade_text", "number"]


_SIGNS = {"passed": "✓", "partial": "≈", "failed": "✗"}
_COLORS = {"passed": "#00795a", "partial": "#0067a5", "failed": "#b54700"}


def number(points: float) -> str:
    """Write points: ``3``, ``2.5``."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def amount(count: float) -> str:
    """Write a count of messages or bytes: ``34,249``."""
    return f"{count:,.2f}".rstrip("0").rstrip(".")


def _head(grade: Marks) -> str:
    if grade.results and all(result.is_bonus for result in grade.results):
        most = sum(result.max_points for result in grade.results)
        return f"{number(grade.points)} of {number(most)} bonus points"
    bonus = f", {number(grade.bonus)} of them bonus" if grade.bonus else ""
    return f"{number(grade.points)} of {number(grade.max_points)} points{bonus}"


def grade_text(grade: Marks) -> str:
    """Return a grade as text."""
    lines = [f"{grade.assignment}: {grade.student}: {_head(grade)}"]
    if grade.status != "graded":
        lines.append(f"NOT GRADED: {grade.message}")
    for result in grade.results:
        bonus = " (bonus)" if result.is_bonus else ""
        points = f"{number(result.points)}/{number(result.max_points)}"
        lines.append(f"  {_SIGNS[result.status]} {points:>6}  {result.title}{bonus}")
        if result.feedback:
            lines.append(textwrap.indent(result.feedback, " " * 12))
        if result.hint:
            lines.append(textwrap.indent(f"hint: {result.hint}", " " * 12))
    return "\n".join(lines)


def check_html(result: CheckResult) -> str:
    """Return one check as a fragment of HTML."""
    first, _, rest = result.feedback.partition("\n")
    return render(
        "grading/templates/check.html.j2",
        result=result,
        color=_COLORS[result.status],
        sign=_SIGNS[result.status],
        first=first,
        rest=rest,
        points=number(result.points),
        most=number(result.max_points),
        hint=result.hint,
        pre=PRE,
    )


def grade_html(grade: Marks) -> str:
    """Return a fragment of HTML without scripts, links and colors, except those of the signs."""
    checks = Markup("".join(check_html(result) for result in grade.results))
    return render(
        "grading/templates/grade.html.j2",
        grade=grade,
        head=_head(grade),
        message=grade.message,
        checks=checks,
    )


def grade_page(grade: Marks) -> str:
    """Return a whole page."""
    return render("grading/templates/page.html.j2", grade=grade, body=Markup(grade_html(grade)))


class Grade(Marks):
    """The grade of one submission; its attributes are those of `labkit.grading.result.Marks`."""

    def text(self) -> str:
        """Return the grade as text, for a terminal."""
        return grade_text(self)

    def html(self) -> str:
        """Return the grade as a whole page."""
        return grade_page(self)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return grade_html(self)
