"""Call paths: the place of a call in the program, told apart by code and line."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

import labkit

__all__ = ["Places"]

_PACKAGE = os.path.dirname(os.path.abspath(labkit.__file__))
_MPI = tuple(os.path.join(_PACKAGE, *room) + os.sep for room in (("trace", "recorder"), ("comm",)))
_MACHINES = tuple(os.path.join(_PACKAGE, room) + os.sep for room in ("real", "sim"))
#: functions of a path; of deeper ones the outermost are left out
_MOST = 8


class _Kinds(dict[str, int]):
    """By file: 0 the program's, 1 that of a call of MPI, 2 what calls the program."""

    def __missing__(self, file: str) -> int:
        is_machine = file.startswith((*_MACHINES, "<frozen runpy"))
        kind = self[file] = 1 if file.startswith(_MPI) else 2 * is_machine
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

    def here_or_inside(self) -> int:
        """Return the same for a call that stands in for another's, -1 if MPI itself has made it."""
        frame = sys._getframe(3)
        return -1 if self._kinds[frame.f_code.co_filename] == 1 else self._number(frame)

    def here(self) -> int:
        """Return the number of the place in the program that made the present call."""
        kinds = self._kinds
        frame = sys._getframe(2)
        while kinds[frame.f_code.co_filename] and frame.f_back is not None:
            frame = frame.f_back
        return self._number(frame)

    def _number(self, frame: FrameType) -> int:
        """Return the number of a place in the program."""
        kinds, line = self._kinds, frame.f_lineno
        codes: list[CodeType] = []
        above: FrameType = frame
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
