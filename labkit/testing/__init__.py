"""Scaling promises in tests: the pytest plugin and the baselines it keeps."""

import importlib
import warnings
from typing import Any

__all__: list[str] = []

#: what stood here in version 0.1
_MOVED = ("Finding", "SortReport", "check_sorted")


def __getattr__(name: str) -> Any:
    """Find what once was here, with a warning."""
    if name not in _MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    today = "labkit.algorithms.sort_checker"
    warnings.warn(
        f"{__name__}.{name} is {today}.{name} now; the old name goes in the next version", FutureWarning, 2
    )
    return getattr(importlib.import_module(today), name)
