"""What happened in a run, message by message, and why it took so long."""

from labkit.trace.recording import Trace

__all__ = ["Trace"]
