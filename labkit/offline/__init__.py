"""Off-line simulation: traces that say what ranks did but not when, recorded, replayed, converted."""

from labkit.offline.reading import read_actions
from labkit.offline.replaying import replay

__all__ = ["read_actions", "replay"]
