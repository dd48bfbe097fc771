"""Phases of functions by their names: calls that the program itself does not mark.

Python tells a hook of each function that begins and ends; those whose names were asked for become phases of
the running rank. The program stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from types import CodeType, FrameType, TracebackType
from typing import Any

from labkit.context import current
from labkit.errors import DataError

__all__ = ["Regions", "regions_of", "unseen"]

#: of these packages a name without its module means nothing: they call the program
_MACHINE, _PROGRAMS = "labkit.", ("labkit.algorithms.",)


def regions_of(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Read names of functions.

    Examples
    --------
    >>> regions_of("merge, solver.Grid.smooth"), regions_of(None)
    (('merge', 'solver.Grid.smooth'), ())
    """
    if given is None:
        return ()
    try:
        names: list[Any] = given.split(",") if isinstance(given, str) else list(given)
    except TypeError:
        names = [given]
    if wrong := [name for name in names if not isinstance(name, str) or not name.strip()]:
        raise DataError(f'regions are names of functions, as in regions=["merge"]; got {wrong[0]!r}')
    return tuple(dict.fromkeys(name.strip() for name in names))


class Regions:
    """Makes phases of calls of functions, in this thread, as long as it is entered.

    A phase has the function's qualified name, such as ``merge`` or ``Grid.smooth``. Of a function that calls
    itself the outermost call counts. A generator is in its phase while it runs, not while it waits. Functions
    written in C are not seen.

    Parameters
    ----------
    names : sequence of str
        Each the name of a function, with as much of its class and module as is needed to tell it from others
        (``merge``, ``Grid.smooth``, ``solver.merge``), or a pattern with ``*`` and ``?``. Functions of labkit
        itself, but for its algorithms, need their module. With ``!`` before it a name leaves out what
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
                    "the profiler, or mark the regions with lk.phase(...)"
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

    def _seen(self, frame: FrameType, event: str, _: Any) -> None:
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
    """Return the names of which no function was called, as far as the phases of a run tell.

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
