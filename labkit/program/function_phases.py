"""Phases by function name: calls of selected functions become phases of the running rank.

A profiling hook sees each function that begins and ends. The program itself is unchanged.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from labkit.errors import DataError
from labkit.program.context import current
from labkit.text.files import text_of

__all__ = ["FILTERS", "Regions", "filter_text", "matches", "regions_of", "unseen"]

#: of these packages a name without its module means nothing: they call the program
_MACHINE, _PROGRAMS = "labkit.", ("labkit.algorithms.",)


def regions_of(given: str | os.PathLike[str] | Iterable[str] | None) -> tuple[str, ...]:
    """Read names of functions, or those that a filter file excludes.

    Examples
    --------
    >>> regions_of("merge, solver.Grid.smooth"), regions_of(None)
    (('merge', 'solver.Grid.smooth'), ())
    """
    if given is None:
        return ()
    if isinstance(given, os.PathLike):
        return _filtered(Path(given))
    if isinstance(given, str) and given.strip().endswith(FILTERS):
        return _filtered(Path(given.strip()))
    try:
        names: list[Any] = given.split(",") if isinstance(given, str) else list(given)
    except TypeError:
        names = [given]
    if wrong := [name for name in names if not isinstance(name, str) or not name.strip()]:
        raise DataError(
            f'regions are names of functions, as in regions=["merge"]; got {wrong[0]!r}', code="wrong-type"
        )
    return tuple(dict.fromkeys(name.strip() for name in names))


#: endings of files that say which regions are not recorded
FILTERS = (".filter", ".filt")

_BEGIN, _END, _EXCLUDE = "SCOREP_REGION_NAMES_BEGIN", "SCOREP_REGION_NAMES_END", "EXCLUDE"


def filter_text(names: Iterable[str], remark: str) -> str:
    """Return a filter file in Score-P's format, which excludes regions."""
    lines = [f"  {_EXCLUDE} {name}" if " " not in name else f'  {_EXCLUDE} "{name}"' for name in names]
    return "\n".join([f"# {' '.join(remark.split())}", _BEGIN, *lines, _END, ""])


def _filtered(path: Path) -> tuple[str, ...]:
    """Read the regions that a filter file excludes."""
    text = text_of(path)
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise DataError(
            f"the filter file {str(path)!r} is not Score-P's: {error}", code="malformed-file"
        ) from None
    if _BEGIN not in words or _END not in words[words.index(_BEGIN) :]:
        raise DataError(
            f"the filter file {str(path)!r} has no block of regions: {_BEGIN}, lines EXCLUDE name, {_END}",
            code="malformed-file",
        )
    inside = words[words.index(_BEGIN) + 1 : words.index(_END)]
    if inside[:1] not in ([], [_EXCLUDE]) or "INCLUDE" in inside:
        raise DataError(
            f"the filter file {str(path)!r} has {'INCLUDE' if 'INCLUDE' in inside else inside[0]!r}; labkit "
            "reads names to EXCLUDE, and records all others",
            code="no-counterpart",
        )
    return tuple(dict.fromkeys(name for name in inside if name not in (_EXCLUDE, "MANGLED")))


@cache
def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a region's name matches one of some patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Regions:
    """Makes phases of calls of functions, in this thread, as long as it is entered.

    A phase has the function's qualified name, such as ``merge`` or ``Grid.smooth``. Of a function that calls
    itself the outermost call counts. A generator is in its phase while it runs, not while it waits. Functions
    written in C are not seen.

    `names`: Each the name of a function, with as much of its class and module as distinguishes it from
        others (``merge``, ``Grid.smooth``, ``solver.merge``), or a pattern with ``*`` and ``?``. Functions of
        labkit itself, but for its algorithms, need their module. With ``!`` before it a name leaves out what
        others let in.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        #: by id of a code its phase, "" of those that are none; the codes are kept, so that ids stay theirs
        self._phases: dict[int, str] = {}
        self._codes: list[CodeType] = []
        #: by rank and phase: how deep in calls of itself
        self._depth: dict[tuple[int, str], int] = {}

    def __enter__(self) -> Regions:
        if self._names:
            if sys.getprofile() is not None:
                raise DataError(
                    "functions are seen by Python's profiling hook, which a profiler has taken; run without "
                    "the profiler, or mark the regions with lk.phase(...)",
                    code="in-use",
                )
            sys.setprofile(self._seen)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._names:
            sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" and event != "return":  # of C functions
            return
        phase = self._phases.get(id(frame.f_code))
        if phase is None:
            phase = self._phase(frame)
        if not phase:
            return
        machine = current()
        if machine is None:
            return
        key = (machine.rank, phase)
        depth = self._depth.get(key, 0)
        if event == "call":
            self._depth[key] = depth + 1
            if depth == 0:
                machine.begin_phase(phase)
        elif depth:
            self._depth[key] = depth - 1
            if depth == 1:
                machine.end_phase(phase)

    def _phase(self, frame: FrameType) -> str:
        """Look a function up that was not seen before."""
        code = frame.f_code
        own = code.co_qualname.replace("<locals>.", "")
        full = f"{frame.f_globals.get('__name__', '')}.{own}"
        is_machine = full.startswith(_MACHINE) and not full.startswith(_PROGRAMS)

        def is_of(name: str) -> bool:
            return fnmatchcase(full, name) or (not is_machine and fnmatchcase(full, f"*.{name}"))

        found = any(is_of(name) for name in self._names if name[0] != "!") and not any(
            is_of(name[1:]) for name in self._names if name[0] == "!"
        )
        self._codes.append(code)
        phase = self._phases[id(code)] = own if found else ""
        return phase


def unseen(names: Sequence[str], phases: Iterable[str]) -> list[str]:
    """Return the names of which no function was called, according to the phases of a run.

    Examples
    --------
    >>> unseen(["merge", "solver.*", "Grid.smooth", "mrge"], ["merge", "Grid.smooth"])
    ['mrge']
    """
    known = set(phases)
    wanted = (name for name in names if name[0] != "!")
    return [name for name in wanted if not any(_may_be(name, one) for one in known)]


def _may_be(name: str, phase: str) -> bool:
    """Whether a function of this qualified name can be meant: the name may begin with its module."""
    starts = [0, *(at + (name[at] == ".") for at, letter in enumerate(name) if letter in ".*")]
    return any(fnmatchcase(phase, name[at:]) or fnmatchcase(phase, f"*.{name[at:]}") for at in starts)
