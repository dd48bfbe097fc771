"""Text for people and files: HTML, units, output of ranks, progress of a run, safe readers and writers."""

__all__: list[str] = []
