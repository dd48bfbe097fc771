"""A grade as text and as HTML; every text of a submission is escaped."""

from __future__ import annotations

import textwrap
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labkit.grading.result import CheckResult, Grade

__all__ = ["check_html", "grade_html", "grade_page", "grade_text", "number"]

_SIGNS = {"passed": "✓", "partial": "≈", "failed": "✗"}
_COLORS = {"passed": "#00795a", "partial": "#0067a5", "failed": "#b54700"}
_BLOCK = "white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0;font-family:inherit"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_CODE = "white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0;padding:6px;background:#8881;font-size:90%"


def number(points: float) -> str:
    """Write points: ``3``, ``2.5``."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def _clean(text: str) -> str:
    """Take out what could move a terminal's cursor or confuse a reader."""
    return "".join(c if c in "\n\t" or c.isprintable() else "?" for c in text)


def _head(grade: Grade) -> str:
    if grade.results and all(result.is_bonus for result in grade.results):
        most = sum(result.max_points for result in grade.results)
        return f"{number(grade.points)} of {number(most)} bonus points"
    bonus = f", {number(grade.bonus)} of them bonus" if grade.bonus else ""
    return f"{number(grade.points)} of {number(grade.max_points)} points{bonus}"


def grade_text(grade: Grade) -> str:
    """Return a grade in words."""
    lines = [f"{grade.assignment}: {grade.student}: {_head(grade)}"]
    if grade.status != "graded":
        lines.append(f"NOT GRADED: {_clean(grade.message)}")
    for result in grade.results:
        bonus = " (bonus)" if result.is_bonus else ""
        points = f"{number(result.points)}/{number(result.max_points)}"
        lines.append(f"  {_SIGNS[result.status]} {points:>6}  {result.title}{bonus}")
        if result.feedback:
            lines.append(textwrap.indent(_clean(result.feedback), " " * 12))
        if result.hint:
            lines.append(textwrap.indent(f"hint: {_clean(result.hint)}", " " * 12))
    if grade.containment:
        lines.append(f"  ({grade.containment})")
    return "\n".join(lines)


def check_html(result: CheckResult) -> str:
    """Return one check as a fragment of HTML."""
    color = _COLORS[result.status]
    bonus = " <em>bonus</em>" if result.is_bonus else ""
    parts = [
        f"<section style='border-left:4px solid {color};padding:2px 0 2px 12px;margin:10px 0'>",
        f"<div><strong style='color:{color}'>{_SIGNS[result.status]} {result.status}</strong> · "
        f"{escape(result.title)}{bonus} · {number(result.points)} of {number(result.max_points)}</div>",
    ]
    first, _, rest = _clean(result.feedback).partition("\n")
    if first:
        parts.append(f"<div style='{_BLOCK}'>{escape(first)}</div>")
    if rest:
        parts.append(f"<pre style='{_CODE}'>{escape(rest)}</pre>")
    if result.hint:
        hint = escape(_clean(result.hint))
        parts.append(f"<div style='{_BLOCK}'><strong>Where to look:</strong> {hint}</div>")
    return "".join([*parts, "</section>"])


def grade_html(grade: Grade) -> str:
    """Return a fragment of HTML without scripts, links or colours of its own but the signs'."""
    parts = [
        f"<div class='labkit-grade'><h3 style='margin:0 0 4px'>{escape(grade.assignment)}: "
        f"{_head(grade)}</h3><div style='opacity:.8'>{escape(grade.student)}</div>"
    ]
    if grade.status != "graded":
        parts.append(f"<p><strong>Not graded:</strong> {escape(_clean(grade.message))}</p>")
    parts += [check_html(result) for result in grade.results]
    if grade.containment:
        parts.append(f"<p style='opacity:.7;font-size:85%'>{escape(grade.containment)}</p>")
    return "".join([*parts, "</div>"])


def grade_page(grade: Grade) -> str:
    """Return a whole page."""
    title = f"{escape(grade.assignment)}: {escape(grade.student)}"
    return (
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'><meta name='color-scheme' content='light dark'>"
        f"<meta http-equiv='Content-Security-Policy' content=\"{_POLICY}\">"
        f"<title>{title}</title></head>"
        "<body style='font-family:system-ui,sans-serif;line-height:1.45;max-width:52em;margin:2em auto;"
        "padding:0 1em'>"
        f"{grade_html(grade)}</body></html>\n"
    )
