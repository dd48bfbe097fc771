"""Studies: sweeps of a program over its parameters, kept as rows, fitted, judged, saved and loaded."""

from labkit.study.comparison import Comparison
from labkit.study.phase_sum import Table
from labkit.study.rows import parameter_columns, run_rows
from labkit.study.selection import Curve
from labkit.study.study import Study, load
from labkit.study.sweep_points import sweep

__all__ = ["Comparison", "Curve", "Study", "Table", "load", "parameter_columns", "run_rows", "sweep"]
