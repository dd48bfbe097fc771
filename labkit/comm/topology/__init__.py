"""Communicators with a topology: Cartesian grids and graphs."""

__all__: list[str] = []
