"""Readable forms of gather."""
