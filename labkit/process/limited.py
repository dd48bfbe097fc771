"""Reading of untrusted files in a child process with limits, where the parser has no bounds itself.

A kilobyte of nested ``try``/``finally`` compiles to more than a gigabyte, a few hundred kilobytes of names
can keep Python's compiler busy for hours, and the library of OTF2 never returns from a damaged archive.
Whatever looks into a submission or an archive therefore runs in a child: it has limits of memory and CPU
time and a deadline, and runs no line of a submission.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from labkit.errors import DataError, MachineError
from labkit.process.confinement.containment import address_space, limit
from labkit.process.watchdog import die_with_parent

__all__ = ["ReadLimits", "limited"]


class ReadLimits(NamedTuple):
    """What a child may use.

    `memory_bytes`: Beyond what this process uses already.
    `cpu_s`: CPU time.
    `deadline_s`: Wall-clock time, on however busy a machine.
    `answer_bytes`: Of the answer.
    """

    memory_bytes: int
    cpu_s: int
    deadline_s: float
    answer_bytes: int


#: of source; the answer is more than all code that may be handed in, parsed and compiled
_SOURCE = ReadLimits(512 << 20, 15, 300.0, 160 << 20)
_PIECE_BYTES = 1 << 20
_EXIT_MEMORY, _EXIT_FAILED = 3, 4


def limited(
    function: Callable[..., object],
    *arguments: object,
    what: str = "the source",
    limits: ReadLimits = _SOURCE,
    is_plain: bool = True,
) -> Any:
    """Call a function in a child process with limits; its value is JSON if `is_plain`, else any object.

    What the function, or a library that it calls, writes to standard error is dropped unless `is_plain`.
    """
    reader, writer = os.pipe()
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        raise MachineError(
            f"no process can be started to read {what}: {error.strerror}", code="not-started"
        ) from error
    if child == 0:
        _in_child(parent, writer, function, arguments, limits, is_plain)
    os.close(writer)
    code = None
    try:
        answer = _answer(reader, limits)
        if answer is not None:
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
    finally:
        os.close(reader)
        if code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if code != 0 or answer is None:
        raise DataError(f"{what} cannot be read: {_why(code, limits, is_plain)}", code="unreadable-file")
    found: dict[str, Any] = json.loads(answer) if is_plain else pickle.loads(answer)
    if "error" in found:
        raise DataError(found["error"], code=found["code"])
    if "machine" in found:
        raise MachineError(found["machine"], code=found["code"])
    return found["value"]


def _why(code: int | None, limits: ReadLimits, is_plain: bool) -> str:
    """Return as text which limit was reached, from the exit code of the child; None: it was ended here."""
    doing = "parsing and compiling it" if is_plain else "reading it"
    if code is None:
        return f"it takes more than {limits.deadline_s:g} s, or has more than {limits.answer_bytes >> 20} MiB"
    if code == _EXIT_MEMORY:
        return f"{doing} takes more than {limits.memory_bytes >> 20} MiB of memory"
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"{doing} takes more than {limits.cpu_s} s of CPU time"
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{'Python' if is_plain else 'its library'} crashes on it ({how})"


def _answer(reader: int, limits: ReadLimits) -> bytes | None:
    """Return all that the child has written; None after the deadline, or where it is too much."""
    deadline_s = time.monotonic() + limits.deadline_s
    pieces: list[bytes] = []
    n_bytes = 0
    poller = select.poll()
    poller.register(reader, select.POLLIN | select.POLLHUP)
    while (left_s := deadline_s - time.monotonic()) > 0 and n_bytes <= limits.answer_bytes:
        if not poller.poll(1000 * left_s):
            continue
        piece = os.read(reader, _PIECE_BYTES)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        n_bytes += len(piece)
    return None


def _in_child(
    parent: int,
    writer: int,
    function: Callable[..., object],
    arguments: tuple[object, ...],
    limits: ReadLimits,
    is_plain: bool,
) -> NoReturn:
    code = _EXIT_FAILED
    try:
        die_with_parent(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        limit("RLIMIT_CORE", 0)
        limit("RLIMIT_CPU", limits.cpu_s, limits.cpu_s + 1)  # a fork's time begins at 0
        limit("RLIMIT_AS", address_space() + limits.memory_bytes)
        if not is_plain:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        value = _called(function, arguments)
        answer = json.dumps(value).encode() if is_plain else pickle.dumps(value)
        while answer:
            answer = answer[os.write(writer, answer[:_PIECE_BYTES]) :]
        code = 0
    except MemoryError:
        code = _EXIT_MEMORY
    except BaseException:
        code = _EXIT_FAILED
    finally:
        os._exit(code)


def _called(function: Callable[..., object], arguments: tuple[object, ...]) -> dict[str, object]:
    try:
        return {"value": function(*arguments)}
    except DataError as error:
        return {"error": str(error), "code": error.code}
    except MachineError as error:
        return {"machine": str(error), "code": error.code}
    except MemoryError:
        raise
    except Exception as error:  # whatever a reader raises on untrusted text is the text's fault
        said = f"cannot be read: {type(error).__name__}: {str(error)[:200]}"
        return {"error": said, "code": "unreadable-file"}
