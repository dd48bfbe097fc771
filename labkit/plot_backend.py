"""The hook by which results draw themselves: the backend is loaded when the first figure is drawn."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["BACKEND", "draw"]

#: a module with a function for each figure; it may import every other package of labkit
BACKEND = "labkit.plot"


def draw(figure: str, *subjects: object, **options: object) -> Any:
    """Return the backend's figure, such as ``draw("scaling", verdict)``."""
    return getattr(importlib.import_module(BACKEND), figure)(*subjects, **options)
