"""Calls that stand on a line of the submission, so that the engine's reports name it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any

__all__ = ["caller_at"]

_template = lambda call, arguments: call(*arguments)  # noqa: E731 - its code object is copied below


@lru_cache(maxsize=4096)
def caller_at(line: int, function: str) -> Callable[[Any, Any], Any]:
    """Return a function that calls from a line of the submission, so that the engine's reports name it."""
    code = _template.__code__.replace(
        co_filename="submission.py", co_name=function, co_qualname=function, co_firstlineno=line
    )
    return FunctionType(code, {})
