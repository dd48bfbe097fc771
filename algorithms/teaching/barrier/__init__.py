"""Readable forms of barrier."""
