"""The stage of a program on an engine: set up before it, put back when it has ended.

An engine lives longer than a run. Output, interrupts, working directory, search path, environment, the
modules of the program's own folders, mpi4py's names and its pickling are the run's while it lasts, and the
engine's again afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import functools
import linecache
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, BinaryIO

import numpy as np
from mpi4py import MPI as MPI4PY

from labkit.process.stacks import is_framework
from labkit.process.watchdog import STACK_SIGNAL
from labkit.real.engines.waits import WAITING, Interrupted, PersistentRequest, Request
from labkit.real.program import dumps
from labkit.real.travel import is_installed

__all__ = ["Interrupts", "own_interrupts", "stage", "stand_by"]

#: untyped: names of the module are replaced during a run, and classes mixed into its own
MPI: Any = MPI4PY

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))


@functools.cache
def _nowhere() -> BinaryIO:
    return open(os.devnull, "wb")  # lives as long as the engine


@functools.cache
def stand_by() -> None:
    """Prepare the engine once: a request for its stacks must never end it."""
    if STACK_SIGNAL is not None:
        faulthandler.register(STACK_SIGNAL, file=_nowhere(), all_threads=True)
    # The settings of a launch of labkit's own; a program sees the folder that its caller has.
    original = os.environ.pop("LABKIT_TMPDIR", None)
    if original is not None:
        os.environ.pop("TMPDIR", None)
        tempfile.tempdir = None
    if original:
        os.environ["TMPDIR"] = original


class Interrupts:
    """Handles the interrupt signal during a run.

    `count`: Interrupts so far.
    `place`: Where the program was at the first one: file, line, function, outermost first.
    `is_in_program`: Whether the program runs, so that the interrupt may be raised in it.
    """

    def __init__(self) -> None:
        self.count = 0
        self.place: list[tuple[str, int, str]] = []
        self.is_in_program = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise in the program's own code; while labkit's code runs, let its waiting loop raise."""
        self.count += 1
        if not self.place and self.is_in_program:
            self.place = _place(frame)
        if frame is None or is_framework(frame.f_code.co_filename) or not self.is_in_program:
            WAITING.stop = True
            return
        raise Interrupted("the run is being ended")


#: An interrupt that arrives so long after a run's end was still meant for the run.
_LATE_S = 1.0
#: The handler of the interrupt outside runs, and how many runs there were.
_outside: list[Any] = [None, 0]


@contextlib.contextmanager
def own_interrupts(interrupts: Interrupts) -> Iterator[None]:
    """Handle the interrupt signal so during a run, and leave it unheard for a moment afterwards.

    Two ranks may end at the same time, each by itself, while the client asks the one for the other's sake: an
    interrupt that comes when the engine sends the report would lose the report, and the rank would be taken
    for stuck.
    """
    previous = signal.signal(signal.SIGINT, interrupts.handle)
    if previous is not _unheard:
        _outside[0] = previous
    _outside[1] += 1
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _unheard)
        try:
            asyncio.get_running_loop().call_later(_LATE_S, _hear_again, _outside[1])
        except RuntimeError:  # no engine's loop
            _hear_again(_outside[1])


def _unheard(number: int, frame: FrameType | None) -> None:
    """Do nothing."""


def _hear_again(run: int) -> None:
    if run == _outside[1] and signal.getsignal(signal.SIGINT) is _unheard:
        signal.signal(signal.SIGINT, _outside[0])


def _place(frame: FrameType | None) -> list[tuple[str, int, str]]:
    """List the program's frames: those above the engine, whose communicators they may have called."""
    found: list[tuple[str, int, str]] = []
    engine, above = os.path.join(_HERE, "engine.py"), 0
    while frame is not None:
        if frame.f_code.co_filename == engine:
            above = len(found)
        elif not is_framework(frame.f_code.co_filename):
            found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found[:above][::-1]


@contextlib.contextmanager
def stage(header: dict[str, Any], output: BinaryIO) -> Iterator[None]:
    """Set the stage for a run, and clear it."""
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        WAITING.stop = False
        enter(_stack_file(header.get("stack_file")))
        enter(_process_state())
        enter(_modules(header))
        enter(_mpi_names())
        enter(_printing(output))
        yield


@contextlib.contextmanager
def _stack_file(path: str | None) -> Iterator[None]:
    if path is None or STACK_SIGNAL is None or not os.path.isdir(os.path.dirname(path)):
        yield
        return
    with open(path, "wb") as file:
        faulthandler.register(STACK_SIGNAL, file=file, all_threads=True)
        try:
            yield
        finally:
            faulthandler.register(STACK_SIGNAL, file=_nowhere(), all_threads=True)


@contextlib.contextmanager
def _process_state() -> Iterator[None]:
    """Put back the folder, the search path, the environment and NumPy's settings."""
    folder = "/"  # where the engine's own folder is gone
    with contextlib.suppress(OSError):
        folder = os.getcwd()
    path, arguments = list(sys.path), list(sys.argv)
    environment, floats, rng = dict(os.environ), np.geterr(), np.random.default_rng
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.chdir(folder)
        sys.path[:], sys.argv[:] = path, arguments
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        np.seterr(**floats)
        np.random.default_rng = rng


@contextlib.contextmanager
def _modules(header: dict[str, Any]) -> Iterator[None]:
    """Let the program import from its caller's folders, again in each run: they may have been edited."""
    with contextlib.suppress(OSError):
        os.chdir(header["folder"])
    new = [path for path in header["path"] if path not in sys.path and os.path.isdir(path)]
    sys.path[:0] = [path for path in new if not _is_lasting(os.path.join(path, ""))]
    for name, text in header["sources"].items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    known = set(sys.modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - known:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and not _is_lasting(file):
                del sys.modules[name]


def _is_lasting(file: str) -> bool:
    """Whether a file belongs to an installed package, the standard library, or labkit."""
    return is_installed(file) or os.path.abspath(file).startswith(_PACKAGE + os.sep)


@contextlib.contextmanager
def _mpi_names() -> Iterator[None]:
    """Let `MPI.Request` be the interruptible class, and messages carry a notebook's classes by value."""
    before = {
        name: getattr(MPI, name) for name in ("COMM_WORLD", "COMM_SELF", "Request", "Prequest", "Finalize")
    }
    pickling: Any = MPI.pickle  # initialized again: that is how mpi4py has its pickling changed
    pickling.__init__(dumps, pickle.loads, pickling.PROTOCOL)
    MPI.Request, MPI.Prequest = Request, PersistentRequest
    MPI.Finalize = lambda: None  # a script's last line; the engine needs MPI again
    try:
        yield
    finally:
        pickling.__init__()
        for name, value in before.items():
            setattr(MPI, name, value)


@contextlib.contextmanager
def _printing(output: BinaryIO) -> Iterator[None]:
    """Send the descriptors 1 and 2 and Python's streams into a file."""
    saved_streams = sys.stdin, sys.stdout, sys.stderr
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(Exception):
            stream.flush()  # type: ignore[union-attr]
    saved = {number: os.dup(number) for number in (1, 2)}
    try:
        for number in (1, 2):
            os.dup2(output.fileno(), number)
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - closed below
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):
                stream.flush()  # type: ignore[union-attr]
        sys.stdin.close()
        sys.stdin, sys.stdout, sys.stderr = saved_streams
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)


def _stream(number: int) -> Any:
    return open(
        number, "w", encoding="utf-8", errors="backslashreplace", buffering=1, newline="", closefd=False
    )


def count_threads() -> int:
    """Count the threads that the program could have started."""
    return sum(not thread.daemon for thread in threading.enumerate())
