"""Read the Python stacks that ranks wrote, and format where each rank was."""

from __future__ import annotations

import importlib.util
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from labkit.text.units import ranks_text

__all__ = [
    "Frame",
    "call_excepthook",
    "is_framework",
    "own_folders",
    "parse_stack",
    "places_text",
    "read_stack",
    "runs_threads",
    "traceback_without",
]

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')

#: the processes of ranks start here: what is below says nothing to a program's author
_CHILDREN = (
    "labkit/real/mpi/child.py",
    "labkit/real/program.py",
    "labkit/sim/script_child.py",
    "labkit/real/engines/engine.py",
)

#: threads of labkit's own in such a process
_OWN_THREADS = ("labkit/process/watchdog.py", "labkit/trace/recorder/session.py")

#: labkit's files between a rank's start and its program, and between the program and MPI
_FRAMEWORK = (
    "comm/",
    "sim/",
    "real/",
    "process/",
    "result/",
    "trace/recorder/",
    "schedule/execute.py",
    "program/context.py",
    "request.py",
    "launch/run.py",
)
_PACKAGE = str(Path(__file__).absolute().parents[1])

#: different places that a message shows
SHOWN_PLACES = 16
#: frames that are shown of each stack
SHOWN_FRAMES = 6


@dataclass(frozen=True)
class Frame:
    """One line of a rank's stack."""

    file: str
    line: int
    name: str

    @property
    def source(self) -> str:
        """The line itself; empty where it is not known."""
        return linecache.getline(self.file, self.line).strip()

    def text(self) -> str:
        """Show the frame as Python does, with its source line where that is known."""
        source = self.source
        where = f'  File "{self.file}", line {self.line}, in {self.name}'
        return f"{where}\n    {source}" if source else where


def is_framework(file: str, package: str = _PACKAGE) -> bool:
    """Whether a file belongs to what runs programs, rather than to a program."""
    return file == "<frozen runpy>" or file.startswith(_framework(package))


@cache
def _framework(package: str) -> tuple[str, ...]:
    return tuple(os.path.join(package, *part.split("/")) for part in _FRAMEWORK)


def call_excepthook(error: Exception) -> None:
    """Call a program's own `sys.excepthook`, if it has one: it may print, or abort all ranks."""
    if sys.excepthook is sys.__excepthook__:
        return
    trace = error.__traceback__
    while trace is not None and is_framework(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    try:
        sys.excepthook(type(error), error, trace)
    except Exception:  # as Python does
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exc()


def read_stack(path: Path) -> list[Frame]:
    """Read the last stack that a rank wrote: the program's frames, outermost first."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return []
    return parse_stack(text)


def parse_stack(text: str) -> list[Frame]:
    """Read the last stack out of what a rank wrote; see `read_stack`."""
    best: list[Frame] = []
    for frames in _threads(text):
        border = _border(frames)
        if border is not None:
            package = _package(frames[border].file)
            found = [
                frame
                for frame in reversed(frames[:border])
                if not frame.file.startswith("<frozen ") and not is_framework(frame.file, package)
            ]
            best = found or best  # another thread of such a process runs no program
    return best


def runs_threads(path: Path) -> bool:
    """Whether a rank's stack file shows threads of the program in addition to the one that runs it."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return False
    return any(
        frames and _border(frames) is None and not any(frame.file.endswith(_OWN_THREADS) for frame in frames)
        for frames in _threads(text)
    )


def _threads(text: str) -> Iterator[list[Frame]]:
    """Read the frames of each thread, the innermost first."""
    for block in re.split(r"^(?=Thread |Current thread |Fatal )", text, flags=re.MULTILINE):
        yield [
            Frame(found["file"], int(found["line"]), found["name"])
            for found in map(_FRAME.match, block.splitlines())
            if found
        ]


def _border(frames: list[Frame]) -> int | None:
    """Return the outermost of labkit's frames, below the program; None for a thread that does not run it."""
    return next((i for i in reversed(range(len(frames))) if frames[i].file.endswith(_CHILDREN)), None)


def _package(file: str) -> str:
    """Return the folder of labkit where one of `_CHILDREN` lies, on whichever host that is."""
    return next(file[: -len(name)] + "labkit" for name in _CHILDREN if file.endswith(name))


def places_text(places: dict[tuple[Frame, ...] | str, list[int]]) -> str:
    """Write down which ranks were where."""
    lines = []
    for place, ranks in list(places.items())[:SHOWN_PLACES]:
        if isinstance(place, str):
            lines.append(f"{ranks_text(ranks)}: {place}")
            continue
        shown = place[-SHOWN_FRAMES:]
        lines.append(f"{ranks_text(ranks)}:" + (" ..." if len(shown) < len(place) else ""))
        lines += [frame.text() for frame in shown]
    if len(places) > SHOWN_PLACES:
        lines.append(f"... and {len(places) - SHOWN_PLACES} more places")
    return "\n".join(lines)


@cache
def own_folders() -> tuple[str, ...]:
    """List the folders of labkit's own code: of a checkout not all, where a user's files may lie."""
    found = []
    for name in ("labkit.errors", "labkit.algorithms", "labkit.datasets"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:  # as frames name it, and where links lead
            folders = Path(spec.origin).parent, Path(spec.origin).resolve().parent
            found += [str(folder) + os.sep for folder in folders]
    return tuple(dict.fromkeys(found))


def traceback_without(error: BaseException, is_own: Callable[[str], bool]) -> str:
    """Format a traceback without labkit's own frames: they say nothing to the program's author."""
    whole = traceback.TracebackException.from_exception(error)
    seen: set[int] = set()
    pending: list[traceback.TracebackException | None] = [whole]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        kept = [frame for frame in one.stack if not is_own(frame.filename)]
        if kept:
            one.stack[:] = kept
        pending += [one.__cause__, one.__context__]
    return "".join(whole.format())
