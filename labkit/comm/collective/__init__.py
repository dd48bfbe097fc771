"""Collective calls: on buffers and on objects, blocking, nonblocking and persistent."""

__all__: list[str] = []
