"""Readable forms of scatter."""
