"""Traces that say what ranks did but not when: time-independent traces and GOAL, read and written."""

from labkit.trace.formats.ti_writer import read_actions, read_goal

__all__ = ["read_actions", "read_goal"]
