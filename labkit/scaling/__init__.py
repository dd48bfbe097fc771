"""Empirical scaling models and verdicts: a description of measurements, judged against an order of growth."""

from labkit.scaling.beyond import Limit, Outlook, limit, outlook
from labkit.scaling.description import find_changes, fit, fit_many
from labkit.scaling.expectation import Expectation, read_expectation
from labkit.scaling.judgment import Guideline, check_guideline, judge
from labkit.scaling.model import Model
from labkit.scaling.samples import Samples, read_samples
from labkit.scaling.search import PAPER, WIDE, ruler, space_for
from labkit.scaling.surface import Surface, SurfaceVerdict, fit_surface, judge_surface
from labkit.scaling.term import CONSTANT, Term
from labkit.scaling.verdict import Deviation, Verdict, deviation_for, match, outcome

__all__ = [
    "CONSTANT",
    "PAPER",
    "WIDE",
    "Deviation",
    "Expectation",
    "Guideline",
    "Limit",
    "Model",
    "Outlook",
    "Samples",
    "Surface",
    "SurfaceVerdict",
    "Term",
    "Verdict",
    "check_guideline",
    "deviation_for",
    "find_changes",
    "fit",
    "fit_many",
    "fit_surface",
    "judge",
    "judge_surface",
    "limit",
    "match",
    "outcome",
    "outlook",
    "read_expectation",
    "read_samples",
    "ruler",
    "space_for",
]
