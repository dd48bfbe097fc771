"""One rank of a submission, in its own process: it runs the source it is given, and asks for everything else.

Whatever a submission changes in here (labkit, NumPy, json, this file) changes what this one process asks
for and nothing else: messages, times, counts, inputs of other ranks and the judgement are on the other side.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import linecache
import operator
import os
import signal
import sys
import traceback
from collections.abc import Iterable
from types import FrameType, ModuleType
from typing import Any, NoReturn

from labkit.grading.sandbox.imports import SHOWN_BY_NAME, Silent
from labkit.grading.sandbox.notes import watch
from labkit.grading.sandbox.wire import WireError, decode, encode, read_frame, write_frame
from labkit.process.confinement import seccomp

__all__ = ["SUBMISSION", "Caller", "drop_algorithms", "main", "preload"]

#: the name under which a submission's lines appear
SUBMISSION = "submission.py"
MOST_OUTPUT, MOST_TRACEBACK = 20_000, 6_000

#: loaded before rights are given up; others can be imported where files can be read
_PRELOADED = """
    abc array bdb bisect cmath collections collections.abc contextlib copy copyreg dataclasses decimal enum
    fractions functools heapq io itertools json math numbers operator pickle queue random re statistics string
    struct textwrap time types typing warnings weakref
    numpy numpy.fft numpy.linalg numpy.ma numpy.polynomial numpy.random
    labkit labkit.comm labkit.comm.module labkit.context labkit.errors labkit.phantom labkit.local
    labkit.real.seeds labkit.sampling labkit.schedule labkit.schedule.powers
    labkit.grading.sandbox.remote_comm labkit.grading.sandbox.remote_module
    labkit.grading.sandbox.schedule_rows
"""


def preload() -> None:
    """Load what ranks need, once for all of them."""
    for name in _PRELOADED.split():
        importlib.import_module(name)
    from labkit.comm.module import simulated_module
    from labkit.local.costs import calibration
    from labkit.real.seeds import seed_rank

    calibration()
    simulated_module()
    seed_rank(0, 0)
    if seccomp.is_known():
        seccomp.program("reading rank"), seccomp.program("rank")
    drop_algorithms()


def drop_algorithms() -> None:
    """Take the algorithms out of the loaded modules: a rank is asked to write them.

    Here, once for all ranks: who looks at the names of all modules writes to each (their counts of
    references), and a rank would copy hundreds of pages for that.
    """
    for name in [name for name in sys.modules if name.startswith("labkit.algorithms")]:
        del sys.modules[name]


class TimeUp(BaseException):
    """The rank has used up its CPU time."""


class Caller:
    """The line to the grader: one request, one answer.

    Parameters
    ----------
    descriptor : int
        The socket.
    """

    encoding, errors = "utf-8", "replace"

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.output: list[str] = []
        self.room = MOST_OUTPUT
        self.operators: list[Any] = []
        self.notes: list[str] = []
        self.is_loading = False

    def printed(self) -> str:
        """Return what was printed since the last request."""
        text, self.output = "".join(self.output), []
        return text

    def tell(self, header: dict[str, Any], parts: Any = ()) -> None:
        """Send a request that is not answered."""
        asked, self.notes[:] = list(self.notes), []
        said = {"out": self.printed(), "asked": asked, "loading": self.is_loading}
        write_frame(self.descriptor, {**header, **said}, parts)

    def ask(self, header: dict[str, Any], parts: Any = ()) -> tuple[dict[str, Any], list[memoryview]]:
        """Send a request and wait for the answer.

        Raises
        ------
        MPI.Exception, ValueError, TypeError, ...
            As the call itself raises them.
        """
        self.tell({**header, "at": _place()}, parts)
        answer, received = read_frame(self.descriptor)
        while "combine" in answer:
            self._combine(answer, received)
            answer, received = read_frame(self.descriptor)
        if "error" in answer:
            raise _error_of(*answer["error"])
        return answer, received

    def operator(self, op: Any) -> int:
        """Return the number by which the grader asks for an operator of the submission's own."""
        for number, known in enumerate(self.operators):
            if known is op:
                return number
        self.operators.append(op)
        return len(self.operators) - 1

    def _combine(self, asked: dict[str, Any], parts: list[memoryview]) -> None:
        """Apply an operator of the submission's own: a collective that waits has come to it."""
        left, right = parts
        try:
            from labkit.comm.module import simulated_module

            datatype = vars(simulated_module())[asked["type"]]
            self.operators[asked["combine"]]._function(left.toreadonly(), right, datatype)
            self.tell({"op": "combined"}, [right])
        except BaseException as error:  # there is no way back into the collective
            _report(self, error)
            os._exit(0)

    def write(self, text: str) -> int:
        """Keep what the submission prints, up to a limit."""
        if self.room > 0:
            self.output.append(text[: self.room])
            self.room -= len(text)
            if self.room <= 0:
                self.output.append("\n... (the rest of this rank's output is not kept)\n")
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def writelines(self, lines: Iterable[str]) -> None:
        """Keep several texts."""
        for line in lines:
            self.write(line)

    def reconfigure(self, **how: Any) -> None:
        """Nothing is buffered here, and no encoding chosen."""

    def fileno(self) -> int:
        """Return the descriptor of the null device: what is written past this object is lost."""
        return 1

    def isatty(self) -> bool:
        """Whether somebody is watching."""
        return False

    @property
    def buffer(self) -> _Bytes:
        """The same output, for bytes."""
        return _Bytes(self)


class _Bytes:
    """What `sys.stdout.buffer` is to `sys.stdout`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.flush = caller.flush

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Keep bytes as text; what is no UTF-8 is escaped."""
        self._caller.write(bytes(data).decode(errors="backslashreplace"))
        return len(data)


def _place() -> list[Any]:
    """Return line and function of the submission that is asking."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != SUBMISSION:
        frame = frame.f_back
    return [0, ""] if frame is None else [frame.f_lineno, frame.f_code.co_name]


def _error_of(kind: str, code: int, text: str) -> BaseException:
    if kind == "mpi":
        from labkit.comm.handles.exceptions import make_error

        return make_error(code, text)
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return found(text)
    from labkit.errors import UnsupportedError

    return UnsupportedError(text)


def main(descriptor: int, may_open: bool, is_strict: bool) -> NoReturn:
    """Receive a job, put the last wall up, run it, and hand back what it returned."""
    caller = Caller(descriptor)
    job, parts = read_frame(descriptor)
    if is_strict:
        seccomp.install("reading rank" if may_open else "rank")
    elif not job["accepts_weak"]:
        os._exit(71)
    signal.signal(signal.SIGXCPU, _time_up)
    sys.argv = [SUBMISSION]
    sys.stdout = sys.stderr = caller
    caller.tell({"op": "begins"})  # what ends this process from here on is the submission's doing
    try:
        value = _run(caller, job, parts)
        arrays: list[Any] = []
        encoded = encode(value, arrays)
        caller.tell({"op": "result", "value": encoded}, arrays)
    except BaseException as error:
        _report(caller, error)
    os._exit(0)  # whatever it has left behind: threads, exit handlers


def _time_up(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeUp("the limit of CPU time is reached here")


def _report(caller: Caller, error: BaseException) -> None:
    text = _traceback(error)
    kind = "time" if isinstance(error, TimeUp) else "error"
    if isinstance(error, MemoryError):
        kind = "memory"
    with contextlib.suppress(WireError):
        caller.tell({"op": kind, "name": type(error).__name__[:80], "text": text[-MOST_TRACEBACK:]})


def _traceback(error: BaseException) -> str:
    """Format a traceback with the submission's own lines only."""
    try:
        whole = traceback.TracebackException.from_exception(error)
        whole.__cause__ = whole.__context__ = None
        kept = [frame for frame in whole.stack if frame.filename == SUBMISSION]
        whole.stack[:] = kept[-12:]
        return "".join(whole.format())
    except BaseException:  # an exception's own methods may fail, too
        return type(error).__name__


def _run(caller: Caller, job: dict[str, Any], parts: list[memoryview]) -> Any:
    from labkit.grading.sandbox.remote_module import install
    from labkit.real.seeds import seed_rank

    comm = install(caller, job)
    seed_rank(job["seed"], job["rank"])
    source = job["source"]
    linecache.cache[SUBMISSION] = (len(source), None, source.splitlines(True), SUBMISSION)
    module = ModuleType("submission")
    module.__file__ = SUBMISSION
    vars(module).update(dict.fromkeys(SHOWN_BY_NAME, Silent()))
    sys.modules["submission"] = module
    watch(caller.notes)
    caller.is_loading = True
    exec(compile(source, SUBMISSION, "exec", dont_inherit=True), vars(module))
    caller.is_loading = False
    function = vars(module).get(job["function"])
    if function is None:
        raise NameError(f"the submission defines no function {job['function']!r}")
    arguments = decode(job["args"], parts)
    if job["mode"] == "schedule":
        from labkit.grading.sandbox.schedule_rows import rows_of

        return rows_of(function, arguments[0])
    if job["mode"] == "plain":
        return function(*arguments)
    if job["has_tasks"]:
        arguments = [*arguments, _Tasks(caller)]
    return function(comm, *arguments)


class _Tasks:
    """Has tasks done: called with a task's number it takes the time that the task takes."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __call__(self, task: int) -> Any:
        """Have a task done.

        Raises
        ------
        IndexError
            There is no such task.
        """
        answer, parts = self._caller.ask({"op": "task", "task": operator.index(task)})
        return decode(answer["value"], parts)
