"""Readable forms of bcast."""
