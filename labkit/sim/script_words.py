"""The start of a simulated script: its command line, folder and package, and the files handed to its process.

Who starts that process reads this file alone: what simulates is imported there.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from labkit.errors import ProgramError
from labkit.request import RunRequest

__all__ = [
    "ANSWER",
    "BEGAN",
    "COMMAND",
    "FAULT",
    "LIVE",
    "NO_SPACE",
    "REQUEST",
    "PythonLine",
    "ScriptStart",
    "is_python",
    "module_file",
    "python_line",
    "read_words",
    "script_start",
    "without_runner",
]

#: in place of a module's name: the program is a text
COMMAND = "-c"
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?")
#: options of Python that stand alone, and those with a value
_ALONE, _VALUED = re.compile(r"-[bBdEiIOPqsSuvx]+"), ("-W", "-X")
_RUNNERS = ("mpi4py", "mpi4py.run", "mpi4py.__main__")
_POOLS = ("mpi4py.futures", "mpi4py.futures.__main__")


@dataclass(frozen=True)
class PythonLine:
    """A program and its arguments, as on Python's command line.

    `program`: A file; the text of a program, where `module` is ``"-c"``; empty for a module that has to be
        found.
    `module`: The name behind ``-m``, ``"-c"``, or empty for a file.
    `rc`: Settings of `mpi4py.rc` that ``-m mpi4py -rc ...`` gives.
    `is_pool`: Whether rank 0 runs the program and the others are its workers (``-m mpi4py.futures``).
    """

    program: str
    args: tuple[str, ...] = ()
    module: str = ""
    rc: Mapping[str, Any] = field(default_factory=dict)
    is_pool: bool = False


def is_python(words: Sequence[str]) -> bool:
    """Whether a command is one of Python's: an interpreter, or a file of Python source."""
    name = os.path.basename(words[0]) if words else ""
    return _PYTHON.fullmatch(name) is not None or name.endswith((".py", ".pyw"))


def python_line(words: Sequence[str]) -> PythonLine:
    """Read the arguments of a command line: ``prog.py args``, ``-m module args``, ``-c code args``.

    The name of an interpreter before them, as mpiexec needs it, is passed over with its options.

    Examples
    --------
    >>> python_line(["python3", "-u", "-m", "pkg.mod", "4"])
    PythonLine(program='', args=('4',), module='pkg.mod', rc={}, is_pool=False)
    """
    left = list(words)
    if left and _PYTHON.fullmatch(os.path.basename(left[0])) and not Path(left[0]).is_dir():
        interpreter = left.pop(0)
        while left and (_ALONE.fullmatch(left[0]) or left[0] in _VALUED):
            del left[: 2 if left[0] in _VALUED else 1]
        if not left:
            raise ProgramError(
                f"{interpreter} is not a program: pass a file, -m MODULE or -c CODE", code="malformed-value"
            )
    if not left:
        raise ProgramError("no program given: pass a file, -m MODULE or -c CODE", code="missing-key")
    first = left.pop(0)
    if first not in ("-m", COMMAND):
        return PythonLine(first, tuple(left))
    if not left:
        raise ProgramError(
            f"{first} needs {'the name of a module' if first == '-m' else 'code'} after it",
            code="missing-key",
        )
    what = left.pop(0)
    return PythonLine(what, tuple(left), COMMAND) if first == COMMAND else PythonLine("", tuple(left), what)


def without_runner(line: PythonLine) -> PythonLine:
    """Remove mpi4py's own runners (``-m mpi4py prog.py``, ``-m mpi4py.futures prog.py``) for simulations."""
    if line.module in _POOLS:
        inner = python_line(line.args)
        return PythonLine(inner.program, inner.args, inner.module, line.rc, is_pool=True)
    if line.module not in _RUNNERS:
        return line
    words, rc = list(line.args), dict(line.rc)
    while words and words[0].startswith("-") and words[0] not in ("-", "-m", COMMAND):
        option, sign, value = words.pop(0).lstrip("-").partition("=")
        if option != "rc":
            raise ProgramError(
                f"-m {line.module} with the option --{option} is not simulated; --rc NAME=VALUE,... is",
                code="unsupported",
            )
        if not sign:
            value = words.pop(0) if words else ""
        rc |= dict(map(_setting, filter(None, value.split(","))))
    inner = python_line(words)
    return without_runner(PythonLine(inner.program, inner.args, inner.module, rc))


def _setting(text: str) -> tuple[str, Any]:
    """Read ``name=value`` as mpi4py does."""
    name, _, value = text.partition("=")
    words: dict[str, object] = {"false": False, "true": True, "none": None}
    read = words.get(value.lower(), value)
    return name.strip(), int(read) if isinstance(read, str) and read.isascii() and read.isdigit() and len(
        read
    ) < 19 else read


def module_file(name: str, folders: Iterable[str] | None = None) -> Path:
    """Find the file that ``python -m name`` runs, without importing anything."""
    places = list(sys.path if folders is None else folders)
    parts = name.split(".")
    spec = None
    for i in range(len(parts)):
        spec = PathFinder.find_spec(".".join(parts[: i + 1]), places)
        if spec is None:
            raise ProgramError(
                f"there is no module {'.'.join(parts[: i + 1])!r} to run with -m {name}", code="unknown-name"
            )
        places = list(spec.submodule_search_locations or ())
    assert spec is not None
    if spec.submodule_search_locations is not None:
        if PathFinder.find_spec(f"{name}.__main__", places) is None:
            raise ProgramError(
                f"{name!r} is a package without __main__.py: -m {name} has nothing to run", code="unsupported"
            )
        return module_file(f"{name}.__main__", folders)
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise ProgramError(
            f"the module {name!r} is no Python source, which -m {name} would need", code="unknown-name"
        )
    return Path(spec.origin)


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
    `is_pool`: Whether all ranks but 0 are workers.
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


def script_start(path: str, args: tuple[object, ...], start: Mapping[str, Any]) -> ScriptStart:
    """Return how a script starts whose text is in a file: see `labkit.sim.machine.Simulator`."""
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
