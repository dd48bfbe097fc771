"""A recorded run in the formats of other tools: Perfetto, Paje, Paraver, Cube, OTF2, Pipit, Hatchet."""

from labkit.trace.exchange.events import LIMIT, Events, events_of
from labkit.trace.exchange.formats import FORMATS, check_export, export, frame_of

__all__ = ["FORMATS", "LIMIT", "Events", "check_export", "events_of", "export", "frame_of"]
