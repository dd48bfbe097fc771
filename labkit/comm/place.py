"""Where in the program a call is made: for what is said about it later."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import NamedTuple

__all__ = ["Place", "here", "there"]

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


def there(frame: FrameType | None) -> Place:
    """Return the innermost line of the program in a stack."""
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        is_own = _is_own.get(name)
        if is_own is None:
            is_own = _is_own[name] = name.startswith(_OWN)
        if not is_own:
            return Place(code, frame.f_lineno)
        frame = frame.f_back
    return Place(None, 0)
