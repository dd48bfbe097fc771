"""One launch of ranks: private directories, start, watch, end. Nothing survives it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from labkit.errors import LabkitError, MachineError
from labkit.process.child import ChildProcess
from labkit.process.folders import make_folder, no_room, shared_folder
from labkit.process.tree import is_stopped
from labkit.process.watchdog import PIPE, STACK_SIGNAL, whereabouts
from labkit.real.mpi.deadlock import WaitWatch
from labkit.real.mpi.environment import STREAM, host_options, launch_command, rank_environment
from labkit.real.mpi.find import Launcher
from labkit.real.mpi.hosts import HostFile
from labkit.real.mpi.waits import Progress
from labkit.text.files import write_all
from labkit.text.progress import Live

__all__ = ["Launch", "LaunchEnding"]

#: how long ranks may take to leave once one has failed
LEAVE_S = 5.0
#: and once all have finished: a host with much to do takes its time to end MPI
LINGER_S = 15.0
#: how long ranks may take to write their stacks before they are killed
STACK_S = 1.0


@dataclasses.dataclass
class LaunchEnding:
    """How a job ended.

    `reason` is ended, time, output, deadlock, failed (a rank) or lingered (done, but stayed).
    """

    reason: str
    returncode: int | None
    host_seconds: float


class Launch:
    """A context manager around one launch.

    `launcher`: The mpiexec.
    `ranks`: Number of ranks.
    `header`: What the ranks need before they unpack the program.
    `payload`: The pickled program.
    `output_limit_bytes`: What all ranks together may print.
    `hosts`: Several hosts; without it the ranks stay on this one.
    """

    #: how frequently the files are looked at while the job runs
    look_s = 0.1

    def __init__(
        self,
        launcher: Launcher,
        ranks: int,
        header: Mapping[str, object],
        payload: bytes,
        output_limit_bytes: int,
        hosts: HostFile | None = None,
    ) -> None:
        self.launcher = launcher
        self.ranks = ranks
        self.directory = ""
        self.output_limit_bytes = output_limit_bytes
        self.token = secrets.token_hex(16)
        self.process: ChildProcess | None = None
        self.hosts = hosts
        #: what rank 0 reads from standard input
        self.stdin = subprocess.DEVNULL
        self._host_options: list[str] = []
        self._header, self._payload = header, payload
        self._folders: list[str] = []
        self._held_pipe: int | None = None
        self._environment: dict[str, str] = {}
        #: settings of the MPI library for this run
        self.switches: dict[str, str] = {}
        #: called before ranks that still live are ended
        self.before_end: Callable[[], None] | None = None
        #: the report of a deadlock, and whether it is of collectives that do not match
        self.blame: LabkitError | None = None
        self._waits: WaitWatch | None = None
        #: ranks that a signal had stopped at the time limit
        self.stopped: set[int] = set()
        #: writes what the ranks print to this process's standard output and error as it comes
        self.is_stream = False
        #: what runs
        self.title = f"{ranks} ranks"

    def __enter__(self) -> Self:
        try:
            self.create()
        except BaseException:
            self.clean()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.clean()

    def rank_file(self, rank: int, kind: str) -> Path:
        """Return the path of one of a rank's files."""
        return Path(self.directory) / f"rank-{rank}.{kind}"

    def launcher_text(self) -> str:
        """Return what the launcher itself printed."""
        try:
            told = (Path(self.directory) / "launcher").read_text("utf-8", "replace")
            return self.spawned_output().decode("utf-8", "replace") + told
        except OSError:
            return ""

    def spawned_output(self) -> bytes:
        """Return what reached the launcher's own output: of processes that ranks have spawned."""
        try:
            return (Path(self.directory) / "launcher.out").read_bytes()
        except OSError:
            return b""

    # -- life ---------------------------------------------------------------------------------------------

    def run(self, timeout_s: float | None) -> LaunchEnding:
        """Start the ranks, and return when they have ended or been ended."""
        begin = time.monotonic()
        if self.is_stream:
            self._write(STREAM, "")
        self._start()
        progress = Progress(self.directory, self.ranks)
        relay = _Relay(self._places() if self.is_stream else {})
        try:
            with Live(f"{self.title} on real MPI", progress.status, progress.lines, self.is_stream):
                reason = self._watch(None if timeout_s is None else begin + timeout_s, relay)
            if reason == "time":
                self._continue_stopped()
                self.ask_for_stacks()
            if reason in ("time", "output", "deadlock") and self.before_end is not None:
                self.before_end()
            self.kill()
        finally:
            relay.look(is_last=True)
        assert self.process is not None
        return LaunchEnding(reason, self.process.code, time.monotonic() - begin)

    def kill(self) -> None:
        """End every process of the job."""
        if self.process is None:
            return
        if left := self.process.end():
            raise MachineError(
                f"processes {sorted(left)} of this run could not be ended; end them manually",
                code="machine-failed",
            )

    def create(self) -> None:
        """Make the private directories, and write down what the ranks need."""
        try:
            self.directory = make_folder(self.hosts.folder if self.hosts else None)
            self._folders.append(self.directory)
            shared = shared_folder(self.directory) if self.hosts is None else None
            self._folders += [shared] if shared else []
            scratch = os.path.join(self.directory, "s")
            os.mkdir(scratch)
            with open(os.path.join(self.directory, "job"), "wb") as file:
                pickle.dump(self._header, file)
                file.write(self._payload)
            paths = [path or os.getcwd() for path in sys.path]
            self._write("path", "\0".join(paths))
            self._write("folders", "\0".join(self._folders))
            if self.hosts is not None:
                self._write("owner", whereabouts()["boot"])
            os.mkfifo(os.path.join(self.directory, PIPE), 0o600)
            self._held_pipe = os.open(os.path.join(self.directory, PIPE), os.O_RDWR | os.O_NONBLOCK)
            self._environment = rank_environment(
                self.launcher, os.environ, self.token, scratch, shared, self.hosts
            )
            if self.hosts is not None:
                names = os.path.join(self.directory, "hosts")
                self._host_options = host_options(self.launcher, self.hosts, names, self._environment)
        except OSError as error:
            raise no_room(self.hosts.folder if self.hosts else "", error) from error

    def _write(self, name: str, text: str) -> None:
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)

    def command(self) -> list[str]:
        """Return the command line that starts the ranks."""
        return launch_command(self.launcher, self.ranks, self.directory, self._host_options)

    def _start(self) -> None:
        command = self.command()
        try:
            with (
                open(os.path.join(self.directory, "launcher"), "wb") as file,
                open(os.path.join(self.directory, "launcher.out"), "wb") as out,
            ):
                self.process = ChildProcess(
                    command,
                    environment=self._environment | self.switches,
                    token=self.token,
                    stdin=self.stdin,
                    stdout=out,
                    stderr=file,
                )
        except OSError as error:
            raise MachineError(
                f"{self.launcher.path} cannot be started: {error}; see labkit doctor", code="not-started"
            ) from error

    def _places(self) -> dict[Path, int]:
        """Return the files of what is printed, and the descriptor to which each belongs."""
        places = {Path(self.directory) / "launcher.out": 1}
        for rank in range(self.ranks):
            places |= {self.rank_file(rank, "out"): 1, self.rank_file(rank, "err"): 2}
        return places

    def _watch(self, deadline: float | None, relay: _Relay) -> str:
        """Wait until the launcher ends or something calls for its end; return which."""
        assert self.process is not None
        leave_by: dict[str, float] = {}
        while True:
            now = time.monotonic()
            pause = self.look_s if deadline is None else max(0.0, min(self.look_s, deadline - now))
            if self.process.wait(pause):
                return "ended"
            relay.look()
            now = time.monotonic()
            names = self._names()
            if any(name.endswith(".error") for name in names):
                leave_by.setdefault("failed", now + LEAVE_S)
            elif sum(name.endswith(".done") for name in names) == self.ranks:
                leave_by.setdefault("lingered", now + LINGER_S)
            for reason, moment in leave_by.items():
                if now >= moment:
                    return reason
            if deadline is not None and now >= deadline and not leave_by:
                return "time"
            if not leave_by and self._is_deadlocked():
                return "deadlock"
            if self._printed_bytes(names) > self.output_limit_bytes:
                return "output"

    def _is_deadlocked(self) -> bool:
        """Whether all ranks wait in vain; then `blame` says how."""
        if not self._header.get("waits"):
            return False
        if self._waits is None:
            self._waits = WaitWatch(self.directory, self.ranks)
        blame = self._waits.look()
        if blame is not None:
            self.ask_for_stacks()
            self.blame = self._waits.verdict(blame)
        return self.blame is not None

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.directory)
        except OSError:
            return []

    def _printed_bytes(self, names: list[str]) -> int:
        total = 0
        for name in names:
            if name.endswith((".out", ".err")):
                with contextlib.suppress(OSError):
                    total += os.stat(os.path.join(self.directory, name)).st_size
        return total

    def _continue_stopped(self) -> None:
        """Find the ranks that were stopped, and continue them so that they can write their stacks."""
        for rank in range(self.ranks):
            with contextlib.suppress(OSError, ValueError):
                pid, _, table = self.rank_file(rank, "pid").read_text().partition(" ")
                if table == whereabouts()["table"] and is_stopped(int(pid)):
                    self.stopped.add(rank)
                    if STACK_SIGNAL is not None:  # first: what is pending comes before the program goes on
                        os.kill(int(pid), STACK_SIGNAL)
                    os.kill(int(pid), signal.SIGCONT)

    def ask_for_stacks(self) -> None:
        """Let every living rank write down where it is; a rank blocked in C can do that as well."""
        asked = []
        here = whereabouts()["table"]
        if self.hosts is not None:
            self._write("stacks", here)  # ranks that cannot be signaled from here look for it
        for rank in range(self.ranks):
            try:
                pid, _, table = self.rank_file(rank, "pid").read_text().partition(" ")
                is_listening = (
                    self.rank_file(rank, "stack").exists() and not self.rank_file(rank, "done").exists()
                )
                if STACK_SIGNAL is None or not is_listening:
                    continue
                if table == here:
                    os.kill(int(pid), STACK_SIGNAL)
                asked.append(rank)
            except (OSError, ValueError):
                continue
        until = time.monotonic() + (STACK_S if self.hosts is None else 3 * STACK_S)
        sizes: list[int] = []
        while time.monotonic() < until:
            time.sleep(0.02)
            before, sizes = sizes, [self._stack_bytes(rank) for rank in asked]
            if all(sizes) and sizes == before:
                return

    def _stack_bytes(self, rank: int) -> int:
        try:
            return self.rank_file(rank, "stack").stat().st_size
        except OSError:
            return 0

    def clean(self) -> None:
        """Remove what the launch has left in files."""
        shared_files = self._shared_files()  # before ranks elsewhere see the pipe break and clean up
        if self._held_pipe is not None:
            os.close(self._held_pipe)
            self._held_pipe = None
        for path in shared_files:
            with contextlib.suppress(OSError):
                os.remove(path)
        for folder in self._folders:
            _remove(folder, LEAVE_S if self.hosts else 0.0)
        self._folders = []

    def _shared_files(self) -> set[str]:
        """List MPI's files in shared memory that lie outside the private folders (MPICH's do)."""
        found: set[str] = set()
        for rank in range(self.ranks):
            with contextlib.suppress(OSError):
                found |= set(self.rank_file(rank, "shm").read_text("utf-8", "surrogateescape").split("\n"))
        return {path for path in found if path.startswith("/dev/shm/")}


class _Relay:
    """Writes what comes into files to descriptors of this process, in whole lines.

    `places`: The descriptor of each file.
    """

    def __init__(self, places: dict[Path, int]) -> None:
        self._places = places
        self._open = dict.fromkeys(places, b"")
        self._read = dict.fromkeys(places, 0)
        #: descriptors that nobody reads any more
        self._closed: set[int] = set()

    def look(self, is_last: bool = False) -> None:
        """Write the lines that have come since the last look; the last time, also those without an end."""
        for file, before in self._open.items():
            try:
                with open(file, "rb") as opened:
                    opened.seek(self._read[file])
                    new = opened.read()
            except OSError:
                continue
            self._read[file] += len(new)
            whole, end, rest = (before + new).rpartition(b"\n")
            self._open[file] = b"" if is_last else rest
            number = self._places[file]
            if number not in self._closed and not write_all(number, whole + end + (rest if is_last else b"")):
                self._closed.add(number)


def _remove(folder: str, patience_s: float) -> None:
    """Remove a folder; ranks on other hosts, which see the pipe break a little later, may still write."""
    until = time.monotonic() + patience_s
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder) or time.monotonic() >= until:
            return
        time.sleep(0.05)
