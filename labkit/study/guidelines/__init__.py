"""Guidelines: an operation must not take longer than what it could be replaced by; and the litmus test."""

from labkit.study.guidelines.check import guidelines
from labkit.study.guidelines.litmus import Litmus, litmus
from labkit.study.guidelines.on_study import check_study
from labkit.study.guidelines.report import GuidelineComparison, GuidelineOutcome, GuidelineReport, compare_all
from labkit.study.guidelines.statement import CATALOGUE, Operation, Statement, catalogue, read_statement

__all__ = [
    "CATALOGUE",
    "GuidelineComparison",
    "GuidelineOutcome",
    "GuidelineReport",
    "Litmus",
    "Operation",
    "Statement",
    "catalogue",
    "check_study",
    "compare_all",
    "guidelines",
    "litmus",
    "read_statement",
]  # fmt: skip
