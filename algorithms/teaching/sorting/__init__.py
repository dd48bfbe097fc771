"""Readable forms of the parallel sorts."""
