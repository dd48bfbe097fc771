"""The result of one run of a program: the same shape from a real and from a simulated machine."""

from labkit.result.by_rank import PLAIN_NUMBERS, ByRank, plain_numbers
from labkit.result.run import PHASE_COLUMNS, Run, median_run, phase_frame

__all__ = ["PHASE_COLUMNS", "PLAIN_NUMBERS", "ByRank", "Run", "median_run", "phase_frame", "plain_numbers"]
