"""Timing: clocks compared, windows in which all ranks start, repetition until an interval is narrow."""

from labkit.timing.bench import Bench, measure
from labkit.timing.clocks import ClockMeter, Clocks, ClockSample
from labkit.timing.repeats import Conduct, Interval, Repeats, interval

__all__ = [
    "Bench",
    "ClockMeter",
    "ClockSample",
    "Clocks",
    "Conduct",
    "Interval",
    "Repeats",
    "interval",
    "measure",
]
