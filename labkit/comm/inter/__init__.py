"""Intercommunicators: two groups of ranks, of which each talks to the other."""

__all__: list[str] = []
