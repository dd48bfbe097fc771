"""The module `sys` of a simulated script: arguments, search path and streams are each rank's own.

What a rank assigns (``sys.stdout = open(...)``, also by `contextlib.redirect_stdout`) or changes
(``sys.argv.pop()``, ``sys.path.append("..")``) is what this rank alone sees. Rank 0 reads the run's standard
input, as under mpiexec; to the others it is empty.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from labkit import _kernels
from labkit.sim.isolation.code import is_installed
from labkit.sim.isolation.waits import waits_of_rank
from labkit.sim.output import rank_of_caller

__all__ = ["RankExits", "own_process_numbers", "own_system"]


#: by rank and name
_own: dict[tuple[int, str], Any] = {}


class _Attribute:
    """An attribute of `sys` that is each rank's own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, module: Any, kind: Any = None) -> Any:
        rank = rank_of_caller()
        whole = module.__dict__[self._name]
        if rank < 0:
            return whole
        found = _own.get((rank, self._name), _own)
        if found is not _own:
            return found
        if type(whole) is list:
            whole = _own[rank, self._name] = list(whole)
        return whole

    def __set__(self, module: Any, value: Any) -> None:
        rank = rank_of_caller()
        if rank < 0:
            module.__dict__[self._name] = value
            return
        _own[rank, self._name] = value
        shared = module.__dict__[self._name]
        if hasattr(shared, "turned"):  # what `print` and `input` use, which ask nobody
            if value is shared:
                shared.turned.pop(rank, None)
            else:
                shared.turned[rank] = value


class _System(ModuleType):
    def __new__(cls, name: str, doc: str | None = None) -> Any:
        """Make a plain module: the import system makes modules of the type that `sys` has."""
        return ModuleType(name, doc)

    argv, path, stdout, stderr, stdin = map(_Attribute, ("argv", "path", "stdout", "stderr", "stdin"))
    excepthook, displayhook = _Attribute("excepthook"), _Attribute("displayhook")


class RankInput(io.TextIOBase):
    """Standard input: rank 0's is the run's, the others' is empty."""

    def __init__(self, through: Any) -> None:
        self._through = through
        self._empty = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        #: by rank: what it reads instead
        self.turned: dict[int, Any] = {}

    def _stream(self) -> Any:
        rank = _kernels.current_rank()
        if rank in self.turned:
            return self.turned[rank]
        return self._through if rank <= 0 and self._through is not None else self._empty

    def read(self, size: int | None = -1, /) -> str:
        return str(self._stream().read(-1 if size is None else size))

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        return str(self._stream().readline(-1 if size is None else size))

    def __next__(self) -> str:  # type: ignore[override]
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def readable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return bool(self._stream().isatty())

    def fileno(self) -> int:
        return int(self._stream().fileno())

    @property
    def buffer(self) -> Any:
        return self._stream().buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "strict"


def own_system() -> None:
    """Let the ranks have their own, for the rest of this process."""
    sys.stdin = RankInput(sys.stdin)
    sys.__class__ = _System


def own_process_numbers() -> None:
    """Let each rank's own code find another process number: names of files and seeds are made from it.

    Installed code gets the true one, for what the system knows by it. Rank 0 has the true one, too.
    """
    whole = os.getpid
    home = whole()

    def getpid() -> int:
        rank = _kernels.current_rank()
        if rank <= 0 or whole() != home:
            return whole()
        frame = sys._getframe(1)
        if is_installed(frame.f_globals.get("__name__"), frame.f_code.co_filename):
            return home
        return home + rank

    os.getpid = getpid


# The end of a script's rank: `atexit`, and threads that are waited for, at the end of its process.


Handler = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class RankExits:
    """The exit handlers of the ranks, in place of the process's."""

    def __init__(self) -> None:
        self._handlers: dict[int, list[Handler]] = {}

    def install(self) -> None:
        """Take the place of `atexit`, for the rest of this process."""
        register, unregister = atexit.register, atexit.unregister

        def own_register(function: Any, /, *args: Any, **kwargs: Any) -> Any:
            rank = _kernels.current_rank()
            if rank < 0:
                return register(function, *args, **kwargs)
            if not callable(function):
                raise TypeError("the first argument must be callable")
            self._handlers.setdefault(rank, []).append((function, args, kwargs))
            return function

        def own_unregister(function: Any, /) -> None:
            rank = _kernels.current_rank()
            if rank < 0:
                return unregister(function)
            kept = [one for one in self._handlers.get(rank, ()) if one[0] != function]
            self._handlers[rank] = kept
            return None

        atexit.register, atexit.unregister = own_register, own_unregister

    def run(self, rank: int) -> None:
        """End a rank as Python ends a process: threads first, then the handlers, the last one first."""
        waits = waits_of_rank()
        if waits is not None:
            waits.join()
        handlers = self._handlers.get(rank)
        while handlers:
            function, args, kwargs = handlers.pop()
            try:
                function(*args, **kwargs)
            except SystemExit:
                continue
            except Exception:  # as Python does: told, and no reason not to end
                print("Exception ignored in atexit callback:", function, file=sys.stderr)
                traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # closed, or whatever the rank has put there
                stream.flush()
