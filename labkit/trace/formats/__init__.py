"""Traces that say what ranks did but not when: time-independent traces and GOAL, read and written."""

from labkit.trace.formats.goal import read_goal
from labkit.trace.formats.ti_writer import read_actions

__all__ = ["read_actions", "read_goal"]
