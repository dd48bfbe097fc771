"""Grades: what a submission has got, in words and as a page."""

from __future__ import annotations

from labkit.grading.page import grade_html, grade_page, grade_text
from labkit.grading.result import Marks

__all__ = ["Grade"]


class Grade(Marks):
    """The grade of one submission; its attributes are those of `labkit.grading.result.Marks`."""

    def text(self) -> str:
        """Return the grade in words, for a terminal."""
        return grade_text(self)

    def html(self) -> str:
        """Return the grade as a page of its own."""
        return grade_page(self)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return grade_html(self)
