"""Traces: a run message by message, and the explanation of its time."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labkit.trace.explanation import Bottlenecks, Contrast, Explanation, contrast
    from labkit.trace.trace import Trace

__all__ = ["Bottlenecks", "Contrast", "Explanation", "Trace", "contrast"]

#: name -> its module: whoever only runs a program needs none of them
_HOMES = {
    "Bottlenecks": "explanation",
    "Contrast": "explanation",
    "Explanation": "explanation",
    "Trace": "trace",
    "contrast": "explanation",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
