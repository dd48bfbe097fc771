"""A rank's part of a real run: it takes the program, runs it, and writes down what happened.

A rank talks to the process that started it through files in a private directory only, so that nothing is
lost when it is killed and nothing of this traffic is measured:

``rank-R.pid``     process id, and whose: written as soon as it lives
``rank-R.out``     everything it printed, from its descriptors 1 and 2
``rank-R.err``     what came from 2, where the launcher passes both on (a file ``stream`` says so)
``rank-R.shm``     MPI's files in shared memory
``rank-R.stack``   its Python stacks, written on the signal `STACK_SIGNAL` or by a crash
``rank-R.result``  per repetition: a pickle of the times, and a pickle of the result
``rank-R.error``   how it failed (JSON)
``rank-R.done``    it has finished, and left only MPI's own shutdown to do

A file ``limit`` there holds the moment (seconds since 1970) at which a rank writes its stacks of itself:
ranks of other hosts cannot be sent a signal.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import pickle
import sys
import time
from types import ModuleType

from labkit.errors import code_of
from labkit.process.watchdog import STACK_SIGNAL, leave_abandoned, tie_rank, whereabouts
from labkit.real.context import RankContext, available_cores
from labkit.real.mpi.environment import STREAM, restore_preload
from labkit.real.program import (
    ResultError,
    Turns,
    flush_streams,
    library_of,
    load_program,
    pack_result,
    until_exit,
)

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from typing import Any, BinaryIO

__all__ = ["main"]


_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MPI_LOCALRANKID")


def main(directory: str) -> None:
    """Run this process's part of the job in `directory`; never returns normally after a failure."""
    rank = _expected_rank()
    child = _Child(directory, rank)
    try:
        child.prepare()
        child.run()
    except BaseException as error:  # the process border: whatever it is, it has to be written down
        try:
            child.fail(error)
        except BaseException:  # not even that: the other ranks must end, too
            from mpi4py.run import set_abort_status  # only now: every rank's start would pay for it

            set_abort_status(1)
            raise


class _LaterMPI(ModuleType):
    """Stands for mpi4py.MPI behind `labkit.MPI` until a script that configures mpi4py has imported it."""

    def __getattr__(self, name: str) -> object:
        return getattr(importlib.import_module("mpi4py.MPI"), name)


class _SetupError(Exception):
    """The machine, not the program, failed."""


class _Child:
    def __init__(self, directory: str, rank: int | None) -> None:
        self.directory = directory
        self.rank = rank if rank is not None else -1
        self.mpi: Any = None
        self.header: dict[str, Any] = {}
        self.payload = b""
        self.stacks = 2
        self.recording: Any = None
        #: what notes blocking calls (`labkit.real.mpi.waits`)
        self.waits: Any = None

    def path(self, kind: str) -> str:
        return os.path.join(self.directory, f"rank-{self.rank}.{kind}")

    # -- set-up -------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Redirect the output, read the job, start MPI, and install the machine's context."""
        if self.rank < 0:  # no launcher says which rank this is: only MPI knows
            self.start_mpi()
        self.redirect()
        tie_rank(self.directory, self.path("shm"))
        self.read_job()
        if self.header["sources"]:
            import linecache
        for name, text in self.header["sources"].items():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        if self.header["kind"] == "script":
            drop_first_folder()
        if self.header["early_mpi"]:
            self.start_mpi()
        elif self.header.get("waits"):
            from labkit.trace.recorder.session import when_imported

            self.load_waits()
            when_imported(self.note_waits)

    def read_job(self) -> None:
        """Read what is to be done."""
        try:
            with open(os.path.join(self.directory, "job"), "rb") as file:
                self.header = pickle.load(file)
                self.payload = file.read()
            if "waits" not in self.header:
                from labkit.real.mpi.waits_page import NOTE_WAITS

                self.header["waits"] = os.path.exists(os.path.join(self.directory, NOTE_WAITS))
        except FileNotFoundError:
            leave_abandoned(self.directory)
            raise

    def redirect(self) -> None:
        """Send descriptors 1 and 2 into this rank's files, so that output of C code is caught as well."""
        with open(self.path("pid"), "w", encoding="ascii") as file:
            file.write(f"{os.getpid()} {whereabouts()['table']}")
        is_stream = os.path.exists(os.path.join(self.directory, STREAM))
        for number, kind in ((1, "out"), (2, "err" if is_stream else "out")):
            output = os.open(self.path(kind), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(output, number)
            os.close(output)
        for stream in (sys.stdout, sys.stderr):
            # Line by line: what a killed rank had printed is worth more than the few system calls.
            stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
        self.stacks = os.open(self.path("stack"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with contextlib.suppress(OSError, ValueError):
            with open(os.path.join(self.directory, "limit"), encoding="ascii") as file:
                left = float(file.read()) - time.time()
            faulthandler.dump_traceback_later(max(0.01, left), file=self.stacks)
        if STACK_SIGNAL is not None:
            faulthandler.register(STACK_SIGNAL, file=self.stacks, all_threads=True)
        restore_preload()
        original = os.environ.pop("LABKIT_TMPDIR", "")
        os.environ.pop("TMPDIR", None)
        if original:
            os.environ["TMPDIR"] = original

    def start_mpi(self) -> None:
        """Import mpi4py.MPI, which initializes MPI, and make sure that launcher and library fit."""
        self.load_waits()
        try:
            from mpi4py import MPI
        except Exception as error:
            raise _SetupError(f"mpi4py.MPI cannot be imported: {_one_line(error)}") from error
        self.mpi = MPI
        world = MPI.COMM_WORLD
        wanted = self.header.get("ranks")
        if wanted is not None and world.size != wanted:
            raise _SetupError(
                f"{wanted} ranks were started, but each sees a world of {world.size}: the mpiexec and the "
                f"MPI library of mpi4py ({library_of(MPI)}) do not belong together"
            )
        self.rank = world.rank
        self.note_waits(MPI)
        self.use_own_pickling()
        self.note_shared_files()
        faulthandler.enable(file=self.stacks)  # again: MPI installed its own handlers

    def load_waits(self) -> Any:
        """Put what notes blocking calls before MPI, where the supervisor can read that."""
        if self.header.get("waits"):
            from labkit.real.mpi.waits_page import load_library

            self.waits = load_library()

    def note_waits(self, mpi: ModuleType) -> None:
        """Begin to note them."""
        if self.waits is not None:
            from labkit.real.mpi.waits_page import open_page

            open_page(self.waits, self.path("wait"), mpi, self.rank, self.header["ranks"])

    def note_shared_files(self) -> None:
        """Write down MPI's files in shared memory: an MPI that is killed leaves them behind."""
        with contextlib.suppress(OSError):
            with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
                paths = {line.split(maxsplit=5)[5].strip() for line in file if "/dev/shm/" in line}
            with open(self.path("shm"), "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write("\n".join(sorted(path for path in paths if path.startswith("/dev/shm/"))))

    # -- the program --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the program, as often as asked, and write each repetition down."""
        from labkit.program import context

        machine = RankContext(self.rank, self.header["ranks"])
        context.install(machine, self.mpi or _LaterMPI("mpi4py.MPI"))
        world = self.mpi and self.mpi.COMM_WORLD
        self.choose(machine)
        self.record(machine)
        turns = Turns(self.header, lambda: world.Dup(), lambda: world and world.Barrier())
        with open(self.path("result"), "wb") as file:
            for repetition in turns:
                machine.reset()
                machine.run_seed = self.header["seed"] + repetition
                counting = self.header.get("counts") if repetition == 0 else None
                machine.begin_counting(counting is not None)
                call = load_program(
                    self.header, self.payload, self.rank, repetition, lambda: self.mpi.COMM_WORLD
                )
                if self.recording is not None:
                    self.recording.prepare()
                turns.start()
                if self.waits is not None:
                    self.waits.labkit_waits_restart()
                if self.recording is not None:
                    self.recording.start()
                begin = time.monotonic()
                result = until_exit(call)
                end = time.monotonic()
                if self.recording is not None:
                    self.recording.finish()
                times = {"begin": begin, "end": end, "phases": machine.phases, "seed": machine.run_seed}
                times |= machine.end_counting() | machine.end_deciding() | (counting or {})
                if self.recording is not None:
                    times["timeline"] = self.recording.timeline()
                kept = turns.keep(times)
                if kept is None:
                    continue
                if self.recording is not None and repetition + 1 == self.header["recorded"] < turns.most:
                    self.stop_recording(machine)
                self.write(file, result, kept)
        faulthandler.cancel_dump_traceback_later()
        with open(self.path("done"), "w", encoding="ascii") as file:
            file.write(str(time.monotonic()))

    def choose(self, machine: RankContext) -> None:
        """Let collectives take the algorithms that the run was asked for, now or once MPI is there."""
        if "coll" not in self.header:
            return
        from labkit.real.collectives.chosen import Chosen
        from labkit.trace.recorder.session import when_imported

        def install(mpi: ModuleType) -> None:
            Chosen(mpi, pickle.loads(self.header["coll"]), machine.taken, machine.note).install()

        if self.mpi is not None:
            install(self.mpi)
        else:
            when_imported(install)

    def record(self, machine: RankContext) -> None:
        """Stand between the program and mpi4py, where the run is recorded."""
        settings = self.header.get("recording")
        if settings is None:
            return
        from labkit.real.program import dumps
        from labkit.trace.recorder.session import Staged

        staged = Staged(settings, self.directory, self.rank, self.header["ranks"])
        staged.install(self.mpi, dumps if self.header["kind"] == "function" else None)
        machine.charge, machine.is_measured = staged.compute, staged.is_measured
        machine.mark = staged.mark
        self.recording = staged

    def stop_recording(self, machine: RankContext) -> None:
        """Get out of the way: the other repetitions are measured."""
        self.recording.uninstall()
        self.recording = machine.charge = machine.mark = None
        machine.is_measured = False
        self.use_own_pickling()

    def use_own_pickling(self) -> None:
        """Let mpi4py pickle what labkit's functions are, too."""
        if self.header.get("kind") == "function":
            from labkit.real.program import dumps

            mine: Any = self.mpi.pickle  # initialized again: that is how mpi4py has its pickling changed
            mine.__init__(dumps, pickle.loads, mine.PROTOCOL)

    def write(self, file: BinaryIO, result: object, times: dict[str, object]) -> None:
        """Write one repetition: first the times, then the result."""
        flush_streams()
        times["printed_bytes"] = os.stat(self.path("out")).st_size
        times["about"] = self.about()
        pickle.dump(times, file)
        pack_result(result, file, self.rank)
        file.flush()

    def about(self) -> dict[str, object]:
        """Describe where this rank really runs, and the MPI that it runs under."""
        place: dict[str, object] = {
            **whereabouts(),
            "cores": available_cores(),
            "machine_cores": os.cpu_count() or 1,
            "affinity": _affinity(),
        }
        module = self.mpi or sys.modules.get("mpi4py.MPI")
        if module is None or module.Is_finalized():
            return place
        return {**place, "library": library_of(module)}

    # -- failure ------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Write the failure down and take the other ranks along."""
        record: dict[str, Any] = {"rank": self.rank, "time": time.monotonic(), "status": 1}
        if isinstance(error, _SetupError):
            record |= {"kind": "machine", "text": str(error)}
        elif isinstance(error, ResultError):
            record |= {"kind": "result", "text": str(error)}
        elif isinstance(error, SystemExit):
            record |= {"kind": "exit", "text": _exit_text(error), "status": _exit_status(error)}
        else:
            record |= {"kind": "exception", "text": _format(error), "code": code_of(error)}
        flush_streams()
        self._record(record)
        if self.recording is not None:
            self.recording.salvage()
        module = self.mpi or sys.modules.get("mpi4py.MPI")
        if module is not None and module.Is_initialized() and not module.Is_finalized():
            if os.path.exists(self.path("error")):
                self._mute()
            module.COMM_WORLD.Abort(record["status"])
        os._exit(record["status"])

    def _mute(self) -> None:
        """Let nothing more into this rank's file: a library's banner on MPI_Abort is not the program's."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(nowhere, number)

    def _record(self, record: dict[str, object]) -> None:
        import json  # only now: a rank's start is short

        # Never seen half written; and the process is in the name because two of them may hold themselves
        # for the same rank, under a launcher that does not belong to the library.
        part = self.path(f"failing-{os.getpid()}")
        try:
            with open(part, "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(record, file)
            os.replace(part, self.path("error"))
        except OSError as reason:  # most likely a full disk: say it where no disk is needed
            for name in (part, self.path("result")):  # makes room for the last lines
                with contextlib.suppress(OSError):
                    os.remove(name)
            with (
                contextlib.suppress(OSError),
                open(self.path("error"), "w", encoding="utf-8", errors="backslashreplace") as file,
            ):
                json.dump({**record, "text": f"{record['text']}\n({reason})"}, file)


def drop_first_folder() -> None:
    """Take the folder of the process that started this one off the search path: a script has its own there.

    ``python -m labkit`` has taken it off already, and what comes first then is what the user has asked for.
    """
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if sys.path and sys.path[0] not in given:
        del sys.path[0]


def _expected_rank() -> int | None:
    for name in _RANK_VARIABLES:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None


def _affinity() -> list[int]:
    """List the cores that this rank may run on."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return list(range(os.cpu_count() or 1))


def _exit_status(error: SystemExit) -> int:
    return error.code if isinstance(error.code, int) and 0 < error.code < 256 else 1


def _exit_text(error: SystemExit) -> str:
    return f"{_format(error).rstrip()}\nthe rank called sys.exit({error.code!r})"


def _format(error: BaseException) -> str:
    from labkit.process.stacks import is_framework, traceback_without  # only now: a rank's start is short

    return traceback_without(error, is_framework)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
