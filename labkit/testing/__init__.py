"""Instruments that tell right from wrong, for tests, notebooks and demos alike."""

from labkit.testing.checker import Finding, SortReport, check_sorted

__all__ = ["Finding", "SortReport", "check_sorted"]
