"""The place in the program where a call is made, for what is said about it later."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from types import CodeType, FrameType
from typing import Any, NamedTuple

__all__ = ["Place", "here", "name_as", "spelled", "there"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OWN = (os.path.join(_PACKAGE, "comm") + os.sep, os.path.join(_PACKAGE, "sim") + os.sep)
_is_own: dict[str, bool] = {}


class Place(NamedTuple):
    """A line of the program."""

    code: CodeType | None
    line: int

    def __str__(self) -> str:
        return "?" if self.code is None else f"{self.code.co_filename}:{self.line}"


def here() -> Place:
    """Return the innermost line of the program that led to the present call."""
    return there(sys._getframe(1))


def name_as(wrapper: Any, name: str, qualified: str) -> Any:
    """Return a wrapper that reports and tracebacks name as the call that it makes."""
    wrapper.__code__ = wrapper.__code__.replace(co_name=name, co_qualname=qualified)
    wrapper.__name__, wrapper.__qualname__ = name, qualified
    return wrapper


def there(frame: FrameType | None) -> Place:
    """Return the innermost line of the program in a stack."""
    while frame is not None:
        if not _is_ours(frame.f_code):
            return Place(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return Place(None, 0)


def spelled(frame: FrameType | None, names: Collection[str], otherwise: str) -> str:
    """Return the one of some methods that the program has called in a stack: the last one before its line."""
    while frame is not None and _is_ours(frame.f_code):
        if frame.f_code.co_name in names:
            otherwise = frame.f_code.co_name
        frame = frame.f_back
    return otherwise


def _is_ours(code: CodeType) -> bool:
    """Whether it is labkit's own."""
    name = code.co_filename
    is_own = _is_own.get(name)
    if is_own is None:
        is_own = _is_own[name] = name.startswith(_OWN)
    return is_own
