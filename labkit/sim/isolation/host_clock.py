"""The host's clocks and timer: also where a simulated rank's program finds simulated time under their names.

A rank may itself start a run. What that run measures of the host, and its time limit, must not go by the
clock of the rank.
"""

from signal import setitimer
from time import clock_gettime, monotonic, perf_counter, sleep, thread_time

__all__ = ["clock_gettime", "monotonic", "perf_counter", "setitimer", "sleep", "thread_time"]
