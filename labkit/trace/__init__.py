"""Traces: a run message by message, and the explanation of its time."""

from labkit.trace.bottlenecks import Bottlenecks
from labkit.trace.contrast import Contrast, contrast
from labkit.trace.explanation import Explanation
from labkit.trace.trace import Trace

__all__ = ["Bottlenecks", "Contrast", "Explanation", "Trace", "contrast"]
