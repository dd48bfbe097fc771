"""Simulated ranks as isolated as processes: copies of code, data and modules for each."""

__all__: list[str] = []
