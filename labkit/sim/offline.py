"""Off-line simulation: everything about traces that say what ranks did but not when."""

from labkit.sim.replay import replay, schedule_trace, without_collectives, write_goal
from labkit.trace.formats import read_actions, read_goal
from labkit.trace.formats.ti_writer import write_plain

__all__ = [
    "read_actions",
    "read_goal",
    "replay",
    "schedule_trace",
    "without_collectives",
    "write_goal",
    "write_plain",
]
