"""Reports: metrics by call path and rank, as Cube has them, and what can be reckoned with them.

`report_of` makes one of a recorded run; `difference`, `mean` and `merge` make one of several.
"""

from labkit.trace.report.algebra import difference, mean, merge
from labkit.trace.report.build import report_of
from labkit.trace.report.report import CallPath, Metric, Report

__all__ = ["CallPath", "Metric", "Report", "difference", "mean", "merge", "report_of"]
