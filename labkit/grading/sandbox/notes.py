"""Notes of what a submission asks for that ranks are not given: files, the grader's modules, frames, ....

They are evidence for a teacher, no proof and no wall: the walls are the kernel's. The notes are taken in the
submission's own process by an audit hook, which Python code cannot take off; code that writes into the
memory of its interpreter can. And not everything that is noted is meant badly: a debug log is a file, too.
"""

from __future__ import annotations

import ast
import os
import sys
import warnings
from functools import cache
from types import FrameType

__all__ = ["installed", "named_in", "noted", "watch"]

#: how many notes of a rank are kept, and how long each may be
_MOST, _MOST_LENGTH = 20, 160
_FILES = {
    "open": "opens",
    "os.listdir": "lists",
    "os.scandir": "lists",
    "os.remove": "removes",
    "os.rename": "renames",
    "os.mkdir": "makes",
    "os.link": "links",
    "os.symlink": "links",
    "os.chmod": "changes",
    "os.chdir": "goes to",
    "os.walk": "lists",
    "glob.glob": "lists",
    "shutil.copyfile": "copies",
}
_ACTS = {
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "os.posix_spawn": "starts a process",
    "os.exec": "starts a program",
    "os.system": "starts a program",
    "subprocess.Popen": "starts a program",
    "os.kill": "sends a signal",
    "socket.connect": "opens a connection",
    "socket.bind": "opens a port",
    "socket.__new__": "makes a socket",
    "gc.get_objects": "looks through the objects of the interpreter",
    "gc.get_referrers": "looks through the objects of the interpreter",
    "gc.get_referents": "looks through the objects of the interpreter",
    "ctypes.dlopen": "calls libraries beneath Python",
    "ctypes.dlsym": "calls libraries beneath Python",
    "ctypes.string_at": "reads memory by address",
    "sys._getframe": "looks at the frames of its callers",
    "sys._current_frames": "looks at frames",
    "sys.settrace": "traces the interpreter",
    "sys.setprofile": "traces the interpreter",
    "sys.addaudithook": "watches the interpreter",
    "mmap.__new__": "maps memory",
}
_REFUSED = ("labkit.grading", "labkit.algorithms")
_SHOWN = ("labkit.grading.notebook",)
#: parts of an installed path that are no package's business of a submission
_TELLING = ("grading", "algorithms", "course", "solution", ".ipynb")
#: between a submission and an event, these say that a package is being loaded, or a report is made
_INNOCENT = ("<frozen importlib", "/traceback.py", "/linecache.py", "/warnings.py", "/inspect.py")


def watch(notes: list[str], own_file: str = "submission.py") -> None:
    """Note from now on what code of a file asks for."""
    seen: set[str] = set()
    is_busy = [False]  # looking at frames is an event, too
    folders = installed()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event not in _FILES and event not in _ACTS and event != "import":
            return
        if is_busy[0] or len(seen) >= _MOST:
            return
        is_busy[0] = True
        try:
            note = _note(event, arguments, folders)
            if note and note not in seen and _is_asked_by(own_file, event):
                seen.add(note)
                notes.append(note)
        finally:
            is_busy[0] = False

    sys.addaudithook(hook)


@cache
def installed() -> tuple[str, ...]:
    """Return where Python and packages are: asked once, in the process that ranks are forked from."""
    import labkit
    import labkit.datasets

    folders = {*sys.path, sys.prefix, sys.base_prefix, *labkit.__path__, *labkit.datasets.__path__} - {""}
    return tuple(path + os.sep for one in folders for path in {one, os.path.realpath(one)})


def _note(event: str, arguments: tuple[object, ...], folders: tuple[str, ...]) -> str:
    if event == "import":
        return _imported(str(arguments[0]))
    if event in _ACTS:
        return _ACTS[event]
    path = arguments[0] if arguments else None
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str) or path.startswith("<"):
        return ""
    is_package = path.startswith(folders) and not any(word in path for word in _TELLING)
    return "" if is_package else f"{_FILES[event]} {path}"[:_MOST_LENGTH]


def _imported(name: str) -> str:
    is_refused = name.startswith(_REFUSED) and not name.startswith(_SHOWN)
    return f"imports {name}"[:_MOST_LENGTH] if is_refused else ""


def named_in(source: str) -> list[str]:
    """Return the notes on what a source imports of the grader, run or not: what is loaded is no event."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            is_room = node.module in _REFUSED
            names += [f"{node.module}.{alias.name}" for alias in node.names] if is_room else [node.module]
    return noted([], [note for name in names if (note := _imported(name))])


def _is_asked_by(own_file: str, event: str) -> bool:
    """Whether the submission is beneath the event, and no loading of a package is between them."""
    frame = sys._getframe(2)
    if event in (
        "sys._getframe",
        "ctypes.dlopen",
        "ctypes.dlsym",
    ):  # libraries do that, too: only its own calls
        return frame.f_code.co_filename == own_file
    found: FrameType | None = frame
    while found is not None:
        name = found.f_code.co_filename
        if name == own_file:
            return True
        if event != "import" and (name.startswith(_INNOCENT[0]) or name.endswith(_INNOCENT[1:])):
            return False
        found = found.f_back
    return False


def noted(before: list[str], asked: object) -> list[str]:
    """Return the notes of a rank with those that its process has sent: nothing of these is believed."""
    new = (
        [one[:_MOST_LENGTH] for one in asked[:_MOST] if isinstance(one, str)]
        if isinstance(asked, list)
        else []
    )
    return list(dict.fromkeys([*before, *new]))[:_MOST]
