"""Readable forms of allgather."""
