"""Readable forms of reduce."""
