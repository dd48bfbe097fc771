"""Off-line simulation: traces that say what ranks did but not when, recorded, replayed, converted."""

from labkit.offline.goal import read_goal, schedule_trace, without_collectives, write_goal
from labkit.offline.reading import read_actions
from labkit.offline.replaying import replay

__all__ = ["read_actions", "read_goal", "replay", "schedule_trace", "without_collectives", "write_goal"]
