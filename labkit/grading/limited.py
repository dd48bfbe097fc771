"""Reading of untrusted source in a child process with limits: Python's own parser has no bounds.

A kilobyte of nested ``try``/``finally`` compiles to more than a gigabyte, and a few hundred kilobytes of
names can keep a reader busy for hours. Whatever looks into a submission therefore runs in a child: it has
limits of memory and CPU time and a deadline, runs no line of the submission, and returns JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from labkit.errors import DataError, MachineError
from labkit.process.confinement.containment import address_space, limit
from labkit.process.watchdog import die_with_parent

__all__ = ["limited"]

#: memory beyond what this process uses already; CPU time; wall-clock time, on however busy a machine
_MEMORY_BYTES, _CPU_S, _DEADLINE_S = 512 << 20, 15, 300.0
#: of an answer: more than all code that may be handed in, parsed and compiled
_MOST_ANSWER_BYTES = 160 << 20
_PIECE_BYTES = 1 << 20
_EXIT_MEMORY, _EXIT_FAILED = 3, 4


def limited(function: Callable[..., Any], *arguments: Any, what: str = "the source") -> Any:
    """Call a function in a child process with limits of memory, CPU time and wall-clock time."""
    reader, writer = os.pipe()
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        raise MachineError(f"no process can be started to read {what}: {error.strerror}") from error
    if child == 0:
        _in_child(parent, writer, function, arguments)
    os.close(writer)
    code = None
    try:
        answer = _answer(reader)
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
        raise DataError(f"{what} cannot be read: {_why(code)}")
    found: dict[str, Any] = json.loads(answer)
    if "error" in found:
        raise DataError(found["error"])
    if "machine" in found:
        raise MachineError(found["machine"])
    return found["value"]


def _why(code: int | None) -> str:
    """Say which limit was reached, from the exit code of the child; None: it was ended here."""
    if code is None:
        return f"it takes more than {_DEADLINE_S:g} s, or has more than {_MOST_ANSWER_BYTES >> 20} MiB"
    if code == _EXIT_MEMORY:
        return f"parsing and compiling it takes more than {_MEMORY_BYTES >> 20} MiB of memory"
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"parsing and compiling it takes more than {_CPU_S} s of CPU time"
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"Python's parser or compiler crashes on it ({how})"


def _answer(reader: int) -> bytes | None:
    """Return all that the child has written; None after the deadline, or where it is too much."""
    deadline_s = time.monotonic() + _DEADLINE_S
    pieces: list[bytes] = []
    n_bytes = 0
    poller = select.poll()
    poller.register(reader, select.POLLIN | select.POLLHUP)
    while (left_s := deadline_s - time.monotonic()) > 0 and n_bytes <= _MOST_ANSWER_BYTES:
        if not poller.poll(1000 * left_s):
            continue
        piece = os.read(reader, _PIECE_BYTES)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        n_bytes += len(piece)
    return None


def _in_child(parent: int, writer: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> NoReturn:
    code = _EXIT_FAILED
    try:
        die_with_parent(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        limit("RLIMIT_CORE", 0)
        limit("RLIMIT_CPU", _CPU_S, _CPU_S + 1)  # a fork's time begins at 0
        limit("RLIMIT_AS", address_space() + _MEMORY_BYTES)
        answer = json.dumps(_called(function, arguments)).encode()
        while answer:
            answer = answer[os.write(writer, answer[:_PIECE_BYTES]) :]
        code = 0
    except MemoryError:
        code = _EXIT_MEMORY
    except BaseException:
        code = _EXIT_FAILED
    finally:
        os._exit(code)


def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    try:
        return {"value": function(*arguments)}
    except DataError as error:
        return {"error": str(error)}
    except MachineError as error:
        return {"machine": str(error)}
    except MemoryError:
        raise
    except Exception as error:  # whatever a reader raises on untrusted text is the text's fault
        return {"error": f"cannot be read: {type(error).__name__}: {str(error)[:200]}"}
