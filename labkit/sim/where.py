"""Source positions of the ranks of a simulation: for reports of deadlocks and time limits."""

from __future__ import annotations

import opcode
import os
import sysconfig
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import CodeType, FrameType

from labkit.process.stacks import is_framework, traceback_without
from labkit.text.units import ranks_text

__all__ = [
    "CodeLine",
    "innermost_frame",
    "is_raised_by_statement",
    "lines_of",
    "place_of",
    "trimmed_stack",
    "trimmed_traceback",
]

#: groups of ranks that a report shows; the rest is counted
SHOWN_GROUPS = 40


@dataclass(frozen=True)
class CodeLine:
    """A line of the program, and the method of the interface it called (empty if none)."""

    file: str
    line: int
    function: str
    method: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"

    @cached_property
    def where(self) -> str:
        """The end of a sentence: made once, said of a million ranks."""
        return f" at {self}"


#: places by code (kept, so that its id stays its own), instruction and method: a million ranks wait at a few
_places: dict[tuple[int, int, str], tuple[CodeType, CodeLine]] = {}
#: by id: a code, and whether it is of a program
_programs: dict[int, tuple[CodeType, bool]] = {}
#: the standard library's files in which a program waits
_WAITING = tuple(
    os.path.join(sysconfig.get_paths()["stdlib"], name)
    for name in ("threading.py", "queue.py", "selectors.py", "concurrent", "asyncio")
)
#: how many are kept
_MOST_KEPT = 4096


def _is_program(code: CodeType) -> bool:
    found = _programs.get(id(code))
    if found is None:
        if len(_programs) >= _MOST_KEPT:
            _programs.clear()
        file = code.co_filename
        is_other = is_framework(file) or file.startswith(_WAITING)
        found = _programs[id(code)] = (code, not is_other)
    return found[1]


def _place(frame: FrameType, code: CodeType, method: str) -> CodeLine:
    key = (id(code), frame.f_lasti, method)  # the line has to be looked for in a table
    found = _places.get(key)
    if found is None:
        if len(_places) >= _MOST_KEPT:
            _places.clear()
        found = _places[key] = (code, CodeLine(code.co_filename, frame.f_lineno, code.co_name, method))
    return found[1]


def place_of(frame: FrameType | None) -> CodeLine | None:
    """Find the innermost line of the program in a stack, and what it called of the interface."""
    method = ""
    while frame is not None:
        code = frame.f_code
        if _is_program(code):
            return _place(frame, code, method)
        method = code.co_name
        frame = frame.f_back
    return None


def innermost_frame(error: BaseException) -> FrameType | None:
    """Return the frame in which an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame if trace is not None else None


def lines_of(places: Iterable[tuple[int, str]]) -> list[str]:
    """Group ranks that say the same: ``ranks 1-3, 5: text``."""
    groups: dict[str, list[int]] = {}
    for rank, text in places:
        found = groups.get(text)
        if found is None:
            groups[text] = [rank]
        else:
            found.append(rank)
    lines = [f"  {ranks_text(ranks)}: {text}" for text, ranks in islice(groups.items(), SHOWN_GROUPS)]
    if len(groups) > SHOWN_GROUPS:
        hidden = sum(len(ranks) for ranks in islice(groups.values(), SHOWN_GROUPS, None))
        lines.append(f"  ... and {hidden} more ranks")
    return lines


def trimmed_stack(frame: FrameType | None) -> str:
    """Format a stack without the frames of what runs programs; empty if there are no others."""
    frames = [one for one in traceback.walk_stack(frame) if not is_framework(one[0].f_code.co_filename)]
    lines = traceback.StackSummary.extract(reversed(frames)).format()
    return "".join(["Traceback (most recent call last):\n", *lines])


def trimmed_traceback(error: BaseException) -> str:
    """Format a traceback without the frames of what runs programs."""
    return traceback_without(error, is_framework)


_RAISE = opcode.opmap["RAISE_VARARGS"]


def is_raised_by_statement(error: BaseException) -> bool:
    """Whether a ``raise`` of Python code raised an exception, not a signal between two instructions."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE
