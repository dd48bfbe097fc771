"""Readable forms of scan."""
