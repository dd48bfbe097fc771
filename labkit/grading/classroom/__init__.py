"""A whole class on one page, for its teacher alone."""

from labkit.grading.classroom.dashboard import dashboard, write_dashboard
from labkit.grading.classroom.similar import Alike, Pair, similar

__all__ = ["Alike", "Pair", "dashboard", "similar", "write_dashboard"]
