"""Off-line simulation: traces that say what ranks did but not when, recorded, replayed, converted."""

from labkit.sim.replay import replay
from labkit.trace.formats.goal import read_goal, schedule_trace, without_collectives, write_goal
from labkit.trace.formats.ti_reader import read_actions

__all__ = ["read_actions", "read_goal", "replay", "schedule_trace", "without_collectives", "write_goal"]
