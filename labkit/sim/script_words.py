"""The start of a simulated script: its command line, folder and package, and the files handed to its process.

Who starts that process reads this file alone: what simulates is imported there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from labkit.process.python_line import COMMAND
from labkit.request import RunRequest

__all__ = [
    "ANSWER",
    "BEGAN",
    "FAULT",
    "LIVE",
    "NO_SPACE",
    "REQUEST",
    "ScriptStart",
    "read_words",
    "script_start",
]

#: files of the process's folder
REQUEST, ANSWER, FAULT = "request.pickle", "answer.pickle", "fault"
#: is there when the run begins
BEGAN = "began"
#: what goes on, for whoever watches; the file that asks for it is there before
LIVE = "live"
#: exit code when the answer could not be written
NO_SPACE = 74


@dataclass(frozen=True)
class ScriptStart:
    """What a rank finds when its script starts.

    `path`: Where the text of the program is.
    `argv0`, `args`: `sys.argv`.
    `folder`: The first of `sys.path`.
    `file`: Its ``__file__``; empty for none.
    `module`: Its name behind ``-m``; empty for a file.
    `shown`: The file's name in tracebacks.
    `rc`: Settings of `mpi4py.rc`.
    `is_pool`: Whether the ranks besides 0 are workers.
    """

    path: str
    argv0: str
    args: tuple[Any, ...]
    folder: str
    file: str
    module: str
    shown: str
    rc: Mapping[str, Any]
    is_pool: bool

    def spec(self) -> ModuleSpec | None:
        """Return what a module is found by; None for a file."""
        return ModuleSpec(self.module, None, origin=self.path) if self.module else None

    def source(self) -> bytes:
        """Return the program's text."""
        return Path(self.path).read_bytes()


def read_words(request: RunRequest) -> ScriptStart:
    """Read a request as Python reads its command line."""
    return script_start(str(request.program), tuple(request.args), request.options.get("start") or {})


def script_start(path: str, args: tuple[Any, ...], start: Mapping[str, Any]) -> ScriptStart:
    """Return how a script starts whose text is in a file: see `labkit.sim.machine.Simulated`."""
    module = start.get("module", "")
    rc, is_pool = start.get("rc", {}), bool(start.get("pool"))
    if module == COMMAND:
        return ScriptStart(path, COMMAND, args, os.getcwd(), "", "", "<string>", rc, is_pool)
    if module:
        full = str(Path(path).resolve())
        name = f"{module}.__main__" if Path(path).name == "__main__.py" else module
        return ScriptStart(full, full, args, os.getcwd(), full, name, full, rc, is_pool)
    folder = str(Path(path).resolve().parent)
    return ScriptStart(path, path, args, folder, path, "", path, rc, is_pool)
