"""Readable forms of alltoall."""
