"""Call paths: the places of calls in the program, by code and line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType

import labkit
from labkit._kernels import CallPlaces

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

    Attributes
    ----------
    here : callable
        Returns the number of the place in the program that made the present call.

    Examples
    --------
    >>> places = Places()
    >>> places.texts()
    []
    """

    def __init__(self) -> None:
        self._kinds = _Kinds()
        self._paths = _Paths(self._kinds)  # apart: what the kernel holds must not hold the kernel's
        self._known = CallPlaces(self._kinds.__getitem__, self._paths.number, _MOST)
        self.here: Callable[[], int] = self._known.here

    def here_or_inside(self) -> int:
        """Return the same for a call that stands in for another's, -1 if MPI itself has made it."""
        frame = sys._getframe(3)
        return -1 if self._kinds[frame.f_code.co_filename] == 1 else self._known.number(frame)

    def texts(self) -> list[str]:
        """Return the paths by number, as ``program > exchange, prog.py:12``."""
        return [_text(line, codes) for line, codes in self._paths.codes]


class _Paths:
    """The call paths that were seen, by line and code; `labkit._kernels.CallPlaces` asks once for each."""

    def __init__(self, kinds: _Kinds) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self.codes: list[tuple[int, list[CodeType]]] = []
        self._kinds = kinds

    def number(self, frame: FrameType) -> int:
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
            number = self._numbers[key] = len(self.codes)
            self.codes.append((line, codes))
        return number


def _text(line: int, codes: list[CodeType]) -> str:
    if not codes:
        return ""
    names = " > ".join(code.co_name for code in reversed(codes))
    return f"{names}, {os.path.basename(codes[0].co_filename)}:{line}"
