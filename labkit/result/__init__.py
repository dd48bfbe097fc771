"""The result of one run of a program: the same shape from a real and from a simulated machine."""

from labkit.result.run import PHASE_COLUMNS, Run, median_run, phase_frame

__all__ = ["PHASE_COLUMNS", "Run", "median_run", "phase_frame"]
