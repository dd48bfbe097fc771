"""Empirical scaling models and verdicts: fits of one term, judged against an order of growth."""

from .deviation import Deviation, deviation_for, match
from .expectation import Expectation, read_expectation
from .guideline import Guideline, check_guideline
from .judging import fit, fit_many, judge
from .model import Model
from .samples import Samples, read_samples
from .space import PAPER, WIDE, ruler, space_for
from .term import CONSTANT, Term
from .verdict import Verdict

__all__ = [
    "CONSTANT",
    "PAPER",
    "WIDE",
    "Deviation",
    "Expectation",
    "Guideline",
    "Model",
    "Samples",
    "Term",
    "Verdict",
    "check_guideline",
    "deviation_for",
    "fit",
    "fit_many",
    "judge",
    "match",
    "read_expectation",
    "read_samples",
    "ruler",
    "space_for",
]
