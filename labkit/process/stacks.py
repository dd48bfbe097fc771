"""Read the Python stacks that ranks wrote, and format where each rank was."""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import os
import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from labkit.units import ranks_text

__all__ = [
    "JOB_VARIABLE",
    "Frame",
    "end_processes",
    "is_framework",
    "is_stopped",
    "job_processes",
    "own_folders",
    "parse_stack",
    "places_text",
    "read_stack",
    "runs_threads",
    "traceback_without",
    "worked_s",
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
    "context.py",
    "request.py",
    "launch.py",
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
    """Whether a rank's stack file shows threads of the program's own, besides the one that runs it."""
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


# Find and end every process of a job, also those that left its process group.


#: environment variable that every process of a job inherits; its value tells the jobs apart
JOB_VARIABLE = "LABKIT_JOB"


def job_processes(token: str, root: int | None = None) -> set[int]:
    """List the living processes of a job.

    A process belongs to the job when it carries the job's token in its environment, or when it descends from
    `root` or lives in root's session. Each way alone has a hole: a program may clear its environment, and a
    process whose parent died is adopted by another one.
    """
    marker = f"{JOB_VARIABLE}={token}".encode()
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in _process_folders():
        pid = int(entry.name)
        try:
            # The name in parentheses may hold anything, so the fields are read from behind it.
            state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if state in "ZX" or pid == os.getpid():
                continue
            parents[pid] = int(parent)
            if int(session) == root or marker in (entry / "environ").read_bytes().split(b"\0"):
                found.add(pid)
        except (OSError, ValueError):  # gone meanwhile, or somebody else's
            continue
    if root in parents:
        found.add(root)
    return _with_descendants(found, parents)


def end_processes(token: str, root: int | None = None, patience_s: float = 5.0) -> set[int]:
    """Kill every process of a job, and return those that would not go within `patience_s` seconds."""
    deadline = time.monotonic() + patience_s
    if not Path("/proc/self/stat").exists() and root is not None:
        with contextlib.suppress(OSError):
            os.killpg(root, signal.SIGKILL)
    left = job_processes(token, root)
    if root in left:
        # It goes last, and starts nothing meanwhile: what its descendants leave behind may come back to it.
        with contextlib.suppress(OSError):
            os.kill(root, signal.SIGSTOP)
    while left and time.monotonic() < deadline:
        for pid in left - {root} or left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
        left = job_processes(token, root)
    return left


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal, such as SIGSTOP, and has not been continued."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, IndexError):
        return False


def worked_s(root: int) -> float:
    """Return the seconds of a processor that a process, its descendants and those gone have used.

    0.0 where there is no ``/proc``.
    """
    ticks: dict[int, int] = {}
    parents: dict[int, int] = {}
    for entry in _process_folders():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    return sum(ticks.get(pid, 0) for pid in _with_descendants({root}, parents)) / os.sysconf("SC_CLK_TCK")


def _process_folders() -> list[Path]:
    try:
        return [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _with_descendants(found: set[int], parents: dict[int, int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    pending = list(found)
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in found:
                found.add(child)
                pending.append(child)
    return found
