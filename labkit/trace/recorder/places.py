"""Call paths: the place of a call in the program, told apart by code and line."""

from __future__ import annotations

import os
import sys
from types import CodeType

import labkit

__all__ = ["Places"]

_PACKAGE = os.path.dirname(os.path.abspath(labkit.__file__))
_RECORDER = os.path.join(_PACKAGE, "trace", "recorder") + os.sep
_SURFACE = os.path.join(_PACKAGE, "comm", "surface.py")
_MACHINES = os.path.join(_PACKAGE, "real") + os.sep
#: functions of a path; of deeper ones the outermost are left out
_MOST = 8


class _Kinds(dict[str, int]):
    """By file: 0 the program's, 1 the recorder's, 2 what calls the program."""

    def __missing__(self, file: str) -> int:
        is_machine = file.startswith((_MACHINES, "<frozen runpy"))
        kind = self[file] = 1 if file.startswith(_RECORDER) or file == _SURFACE else 2 * is_machine
        return kind


class Places:
    """The call paths of one rank, by number.

    Examples
    --------
    >>> places = Places()
    >>> places.texts()
    []
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._codes: list[tuple[int, list[CodeType]]] = []
        self._kinds = _Kinds()

    def here(self) -> int:
        """Return the number of the place in the program that made the present call."""
        kinds = self._kinds
        frame = sys._getframe(2)
        while kinds[frame.f_code.co_filename] and frame.f_back is not None:
            frame = frame.f_back
        line = frame.f_lineno
        codes: list[CodeType] = []
        above = frame
        while kinds[above.f_code.co_filename] != 2 and len(codes) < _MOST:
            codes.append(above.f_code)
            if above.f_back is None:
                break
            above = above.f_back
        key = (line, *map(id, codes))  # they live: they are kept with their number
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._codes)
            self._codes.append((line, codes))
        return number

    def texts(self) -> list[str]:
        """Return the paths by number, as ``program > exchange, prog.py:12``."""
        return [_text(line, codes) for line, codes in self._codes]


def _text(line: int, codes: list[CodeType]) -> str:
    if not codes:
        return ""
    names = " > ".join(code.co_name for code in reversed(codes))
    return f"{names}, {os.path.basename(codes[0].co_filename)}:{line}"
