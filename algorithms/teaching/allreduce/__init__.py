"""Readable forms of allreduce."""
