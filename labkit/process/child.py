"""The one child process: its own session, all output somewhere, and an end for all its descendants."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self

from labkit.errors import ProgramError
from labkit.process.tree import JOB_VARIABLE, end_processes
from labkit.process.watchdog import PARENT_VARIABLE

__all__ = ["ChildProcess", "ending_text", "given_input", "module_words", "telling_words"]


#: how much of a process's last output is read
_TAIL_BYTES = 4000
#: how often a fork is looked at whose end has a limit and no descriptor
_LOOK_S = 0.01
#: set by the command ``labkit``, whose process holds no program of a user: a child may be a fork of it, which
#: has its modules already
may_fork = False
#: the collector's thresholds, where that command has raised them: a user's program has Python's own
collector: tuple[int, int, int] | None = None


class ChildProcess:
    """A process that this one has started; a context manager that ends it with all its descendants.

    It leads its own session: Ctrl-C in a terminal reaches this process only, which then ends the child.

    `words`: Its command line.
    `target`: What it runs instead in a fork of this process, where that is allowed (`may_fork`, no other
        thread).
    `environment`: Default: this process's. The token by which its descendants are found is added.
    `token`: That token; default: a new one.
    `is_watched`: Whether the child gets a pipe whose other end only this process holds, for
        `labkit.process.watchdog.watch_parent`.
    `pass_fds`: Descriptors that it inherits.
    `**streams`: ``stdin`` (default: nothing), ``stdout``, ``stderr`` and ``cwd``, as for `subprocess.Popen`.
    Raises OSError: It cannot be started.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        target: Callable[[], object] | None = None,
        environment: Mapping[str, str] | None = None,
        token: str = "",
        is_watched: bool = False,
        pass_fds: Sequence[int] = (),
        **streams: Any,
    ) -> None:
        self.token = token or secrets.token_hex(16)
        own = {**(os.environ if environment is None else environment), JOB_VARIABLE: self.token}
        self._held = inherited = None
        if is_watched:
            inherited, self._held = os.pipe()
            own[PARENT_VARIABLE] = str(inherited)
            pass_fds = (*pass_fds, inherited)
        try:
            if target is not None and may_fork and threading.active_count() == 1:
                self.popen: Any = _Fork(target, own, pass_fds, **streams)
            else:
                self.popen = subprocess.Popen(
                    words,
                    env=own,
                    start_new_session=True,
                    pass_fds=pass_fds,
                    **{"stdin": subprocess.DEVNULL, **streams},
                )
        except BaseException:
            self._let_go()
            raise
        finally:
            if inherited is not None:
                os.close(inherited)
        self._descriptor: int | None = None
        with contextlib.suppress(AttributeError, OSError):
            self._descriptor = os.pidfd_open(self.popen.pid)

    @property
    def pid(self) -> int:
        """Its process id, which is also its session's."""
        return int(self.popen.pid)

    @property
    def code(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        code: int | None = self.popen.returncode
        return code

    def wait(self, seconds: float | None) -> bool:
        """Wait until it has ended, or the time is over; whether it has ended.

        A process descriptor wakes it; `subprocess.Popen.wait` with a limit polls every 50 ms at worst,
        which would be added to every launch.
        """
        if self._descriptor is not None and seconds is not None and self.popen.returncode is None:
            poller = select.poll()
            poller.register(self._descriptor, select.POLLIN)
            if not poller.poll(max(0, int(seconds * 1000))):
                return False
            seconds = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(seconds)
        return self.popen.returncode is not None

    def end(self) -> set[int]:
        """End it and all its descendants, and return those that would not go."""
        left = end_processes(self.token, self.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(timeout=2)
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._let_go()
        return left

    def _let_go(self) -> None:
        """Close what it is held by."""
        for name in ("_held", "_descriptor"):
            descriptor = self.__dict__.pop(name, None)
            setattr(self, name, None)
            if descriptor is not None:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class _Fork:
    """A fork of this process, with what is needed here of `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(
        self,
        target: Callable[[], object],
        environment: Mapping[str, str],
        pass_fds: Sequence[int],
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self.returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            self._become(target, environment, sorted(pass_fds), stdin)

    @staticmethod
    def _become(
        target: Callable[[], object], environment: Mapping[str, str], kept: list[int], stdin: int
    ) -> NoReturn:
        """Let go of what the parent has, as a new process would not have it, and run."""
        status = 1
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY) if stdin == subprocess.DEVNULL else stdin, 0)
            for low, high in zip([2, *kept], [*kept, os.sysconf("SC_OPEN_MAX")], strict=True):
                os.closerange(low + 1, high)
            sys.stdin = os.fdopen(0, closefd=False)
            os.environ.clear()
            os.environ.update(environment)
            target()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; `subprocess.TimeoutExpired` when the time is over before."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, 0 if until is None else os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired("a fork", timeout or 0.0)
            else:
                time.sleep(_LOOK_S)
        return self.returncode


def module_words(module: str, *words: object) -> list[str]:
    """Return the command line of one of labkit's modules.

    ``-P``: the folder that this process happens to be in must not decide which labkit is imported.
    """
    return [sys.executable, "-P", "-m", module, *map(str, words)]


def ending_text(code: int | None) -> str:
    """Describe how a process ended, from its exit code.

    Examples
    --------
    >>> ending_text(3), ending_text(-11)
    ('left with exit status 3', 'was ended by signal 11 (SIGSEGV)')
    """
    if code is None or code >= 0:
        return f"left with exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    text = f"was ended by signal {-code} ({name})"
    return text + ("; unless someone sent it, the machine ran out of memory" if name == "SIGKILL" else "")


def telling_words(file: Any) -> str:
    """Return the line of what a process has printed that says most: a crash, else the last one."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
    lines = file.read().decode("utf-8", "replace").strip().splitlines()
    fatal = [line for line in lines if line.startswith("Fatal Python error")]
    return str((fatal or lines[-1:] or [""])[0])[:300]


# Standard input of a program in separate processes: a text, an open file, a terminal, or nothing.


@contextlib.contextmanager
def given_input(what: object, *, is_relayed: bool = False) -> Iterator[int]:
    """Yield a descriptor for the ``stdin`` of a child process."""
    if what is None:
        yield subprocess.DEVNULL
    elif isinstance(what, str):
        with tempfile.TemporaryFile() as file:
            file.write(what.encode())
            file.seek(0)
            yield file.fileno()
    else:
        descriptor = _descriptor(what)
        if is_relayed and os.isatty(descriptor):
            with _relay(descriptor) as end:
                yield end
        else:
            yield descriptor


def _descriptor(what: Any) -> int:
    try:
        number = what if isinstance(what, int) else what.fileno()
        os.fstat(number)
    except (AttributeError, OSError, ValueError):
        raise ProgramError(
            f"stdin must be a string, an open file or its descriptor, got {type(what).__name__}",
            code="wrong-type",
        ) from None
    return int(number)


@contextlib.contextmanager
def _relay(terminal: int) -> Iterator[int]:
    """Yield the end of a pipe into which another thread writes what comes from a terminal."""
    read, write = os.pipe()
    stop_read, stop_write = os.pipe()

    def hand_on() -> None:
        with contextlib.suppress(OSError):
            while True:
                ready, _, _ = select.select([terminal, stop_read], [], [])
                data = b"" if stop_read in ready else os.read(terminal, 65536)
                if not data:
                    break
                os.write(write, data)
        os.close(write)

    thread = threading.Thread(target=hand_on, name="labkit-stdin", daemon=True)
    thread.start()
    try:
        yield read
    finally:
        os.close(stop_write)
        thread.join(1.0)
        os.close(read)
        os.close(stop_read)
