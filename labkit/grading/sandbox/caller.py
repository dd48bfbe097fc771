"""The connection from a rank's process to the grader, and the submission's output."""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

from labkit.comm.handles.exceptions import make_error
from labkit.comm.pickling import pickle
from labkit.errors import UnsupportedError
from labkit.grading.sandbox.wire import Frames, WireError

__all__ = ["SUBMISSION", "Caller", "CpuTimeUp"]

#: the name under which a submission's lines appear
SUBMISSION = "submission.py"
MOST_OUTPUT, MOST_TRACEBACK = 20_000, 6_000


class CpuTimeUp(BaseException):
    """The rank has used up its CPU time."""


class Caller:
    """The line to the grader: one request, one answer.

    `line`: The connection to it.
    """

    encoding, errors = "utf-8", "replace"

    def __init__(self, line: Frames) -> None:
        self.line = line
        self.output: list[str] = []
        self.room = MOST_OUTPUT
        self.operators: list[object] = []
        self.notes: list[str] = []
        self.is_loading = False
        self._posted = 0

    def printed(self) -> str:
        """Return what was printed since the last request."""
        text, self.output = "".join(self.output), []
        return text

    def tell(self, header: Mapping[str, object], parts: Any = ()) -> None:
        """Send a request that is not answered."""
        said: dict[str, object] = dict(header)
        if self.output:
            said["out"] = self.printed()
        if self.notes:
            said["asked"], self.notes[:] = list(self.notes), []
        if self.is_loading:
            said["loading"] = True
        self.line.write(said, parts)

    def post(self, header: Mapping[str, object], parts: object = ()) -> int:
        """Send a request that cannot fail and is not answered; the number of what it begins.

        The rank goes on immediately, and so does its process on the same core: a wait would cost both of them
        two changes of context.
        """
        self._posted -= 1
        self.tell({**header, "at": _place(), "number": self._posted}, parts)
        return self._posted

    def ask(
        self, header: Mapping[str, object], parts: object = ()
    ) -> tuple[dict[str, Any], list[memoryview]]:
        """Send a request and wait for the answer.

        Raises MPI.Exception, ValueError, TypeError, ...: As the call itself raises them.
        """
        self.tell({**header, "at": _place()}, parts)
        answer, received = self.line.read()
        while "combine" in answer:
            self._combine(answer, received)
            answer, received = self.line.read()
        if "error" in answer:
            raise _error_of(*answer["error"])
        return answer, received

    def report(self, error: BaseException) -> None:
        """Report how the submission ended."""
        text = _traceback(error)
        kind = "time" if isinstance(error, CpuTimeUp) else "error"
        if isinstance(error, MemoryError):
            kind = "memory"
        with contextlib.suppress(WireError):
            self.tell({"op": kind, "name": type(error).__name__[:80], "text": text[-MOST_TRACEBACK:]})

    def operator(self, op: object) -> int:
        """Return the number by which the grader asks for an operator of the submission's own."""
        for number, known in enumerate(self.operators):
            if known is op:
                return number
        self.operators.append(op)
        return len(self.operators) - 1

    def _combine(self, asked: dict[str, Any], parts: list[memoryview]) -> None:
        """Apply an operator that only this process can: a collective that waits has reached it.

        What fails on objects is raised in the call, as by mpi4py, which combines them itself.
        """
        left, right = parts
        function: Any = self.operators[asked["combine"]]
        if "type" not in asked:
            self.tell({"op": "combined"}, [pickle.dumps(function(pickle.loads(left), pickle.loads(right)))])
            return
        try:
            from labkit.comm.module import simulated_module

            datatype = vars(simulated_module())[asked["type"]]
            function._function(left.toreadonly(), right, datatype)
            self.tell({"op": "combined"}, [right])
        except BaseException as error:  # there is no way back into the collective
            self.report(error)
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

    def reconfigure(self, **how: object) -> None:
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


def _place() -> list[object]:
    """Return line and function of the submission that is asking."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != SUBMISSION:
        frame = frame.f_back
    return [0, ""] if frame is None else [frame.f_lineno, frame.f_code.co_name]


def _error_of(kind: str, code: int, text: str) -> BaseException:
    if kind == "mpi":
        return make_error(code, text)
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return found(text)
    return UnsupportedError(text)


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
