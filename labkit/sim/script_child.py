"""The process in which a script's ranks run: ``python -m labkit.sim.script_child FOLDER``.

FOLDER holds the request; the answer, a Run or an exception, is left there. `mpi4py.MPI` is the simulated
module here, and the clocks of `time` show simulated time to a rank.
"""

from __future__ import annotations

import atexit
import contextlib
import copyreg
import faulthandler
import functools
import gc
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from labkit import _kernels
from labkit.comm import environment
from labkit.comm.module import simulated_module
from labkit.errors import LabkitError, MachineError, RankError
from labkit.process import child
from labkit.process.child import ending_text
from labkit.process.stacks import call_excepthook
from labkit.process.tree import JOB_VARIABLE, end_processes
from labkit.process.watchdog import watch_parent
from labkit.request import RunRequest
from labkit.sim.isolation.clocks import HOST_DATES, simulate_all_clocks
from labkit.sim.isolation.code import is_installed
from labkit.sim.isolation.mpi4py_name import SimulatedName
from labkit.sim.isolation.package_state import RankFigures, RankOptions, WatchedModules
from labkit.sim.isolation.rank_world import SPARE_RANKS, OwnModules, RankWorld, SpawnedRanks
from labkit.sim.isolation.waits import owner_of_thread, waits_of_rank
from labkit.sim.output import rank_of_caller
from labkit.sim.script_words import ANSWER, BEGAN, FAULT, LIVE, NO_SPACE, REQUEST, ScriptStart, read_words
from labkit.sim.simulation import running
from labkit.sim.where import place_of
from labkit.text.progress import told_to

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["live", "main"]


# The module `sys` of a simulated script: arguments, search path and streams are each rank's own.


#: by rank and name
_own: dict[tuple[int, str], Any] = {}


class _Attribute:
    """An attribute of `sys` that is each rank's own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, module: object, kind: object = None) -> object:
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

    def __set__(self, module: object, value: Any) -> None:
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

    def __init__(self, through: object) -> None:
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


Handler = tuple[Callable[..., object], tuple[object, ...], dict[str, object]]


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
            except Exception:  # as Python does: reported, and no reason not to end
                print("Exception ignored in atexit callback:", function, file=sys.stderr)
                traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # closed, or whatever the rank has put there
                stream.flush()


_EXIT = os._exit
#: how objects are pickled that do not say so themselves, before a program has been here
_REDUCERS = dict(copyreg.dispatch_table)


def main(folder: Path) -> None:
    """Run the request and leave the answer; what goes wrong is an answer too."""
    answer: object
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    _record_crashes(folder)
    _name_the_rank_that_leaves(folder)
    try:
        answer = _simulate(pickle.loads((folder / REQUEST).read_bytes()), folder)
    except (LabkitError, KeyboardInterrupt) as error:
        answer = error
    except BaseException as error:
        answer = MachineError(f"the simulator itself failed: {type(error).__name__}: {error}")
        answer.__cause__ = error
    _leave(answer, folder)


def _leave(answer: object, folder: Path) -> None:
    partial = folder / f"{ANSWER}.part"
    try:
        with partial.open("wb") as file:
            own = pickle.Pickler(file)
            own.dispatch_table = _REDUCERS  # not what the program has registered, as for tracebacks
            own.dump(answer)
    except OSError:
        _EXIT(NO_SPACE)
    partial.rename(folder / ANSWER)


def _record_crashes(folder: Path) -> None:
    """Let a crash in compiled code write down where it was."""
    try:
        faulthandler.enable(open(folder / FAULT, "w"), all_threads=False)  # noqa: SIM115 (open until the end)
    except OSError:
        return  # a full disk: the run goes on without


def _clean(folder: Path) -> None:
    """Leave nothing behind when the parent was killed."""
    end_processes(os.environ.get(JOB_VARIABLE, ""), patience_s=1.0)
    shutil.rmtree(folder, ignore_errors=True)


def _name_the_rank_that_leaves(folder: Path) -> None:
    """Report which rank ended itself, and where: `os._exit` or a signal would end all ranks silently."""
    number_of, send, abort = os.getpid, os.kill, os.abort
    home = number_of()

    def say(what: str, frame: FrameType) -> None:
        simulation = running()
        if simulation is not None and number_of() == home:  # not a process that a rank has forked
            rank, place = simulation.hub.rank, place_of(frame)
            text = f"rank {rank} {what} at {place}"
            error = RankError(rank, text, text)
            simulation.output.flush()
            error.attach_output(simulation.output.texts())
            _leave(error, folder)

    def leave(status: int) -> NoReturn:
        say(f"left with os._exit({status})", sys._getframe(1))
        _EXIT(status)

    def kill(pid: int, number: int, /) -> None:
        if _kernels.current_rank() > 0 and pid == home + _kernels.current_rank():
            pid = home
        if pid == home and _ends(number):
            say(_signal_text(number), sys._getframe(1))
        send(pid, number)

    def raise_signal(number: int, /) -> None:
        if _ends(number):
            say(_signal_text(number), sys._getframe(1))
        send(number_of(), number)

    def give_up() -> NoReturn:
        say(_signal_text(signal.SIGABRT), sys._getframe(1))
        abort()

    os._exit, os.kill, os.abort, signal.raise_signal = leave, kill, give_up, raise_signal


def _signal_text(number: int) -> str:
    return ending_text(-number).partition(";")[0]


def _ends(number: int) -> bool:
    """Whether a signal would end this process."""
    if number == signal.SIGKILL:
        return True
    quiet = ("SIGSTOP", "SIGCHLD", "SIGCONT", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGWINCH")
    is_quiet = number == 0 or number in [getattr(signal, name, None) for name in quiet]
    if is_quiet or number not in signal.valid_signals():
        return False
    return signal.getsignal(number) is signal.SIG_DFL


def _simulate(request: RunRequest, folder: Path) -> object:
    from labkit.sim.runner import simulate_program

    if child.collector is not None:
        gc.set_threshold(*child.collector)
    line = read_words(request)
    output = _Descriptors(folder, bool(request.options.get("stream")))
    sys.argv = [line.argv0, *map(str, line.args)]
    sys.path.insert(0, line.folder)
    SimulatedName(simulated_module()).__enter__()  # for the rest of this process
    simulate_all_clocks()
    worlds: dict[int, RankWorld] = {}
    watched = WatchedModules()
    own = _own_modules(worlds, watched if request.ranks > 1 else None)
    exits = RankExits()
    exits.install()
    whole_pid = os.getpid
    own_process_numbers()
    own_system()
    os.register_at_fork(after_in_child=lambda: _keep_printed(folder, output))
    code = own.dated(compile(line.source(), line.shown, "exec", dont_inherit=True), line.source)
    worlds.update({rank: RankWorld(own, line.file, line.spec()) for rank in range(request.ranks)})
    spawned = SpawnedRanks(own, worlds, line, folder)
    home = os.getpid()

    def leave(failure: BaseException) -> NoReturn:
        if whole_pid() == home:  # not a process that a rank has forked
            if output.of is not None:
                output.of.flush()
            _leave(failure, folder)
        _EXIT(0)

    def program(comm: Intracomm) -> None:
        rank = _kernels.current_rank()
        simulation = running()
        assert simulation is not None
        simulation.context.is_early = False
        simulation.leave = leave
        simulation.calls.spawn = spawned.spawn
        output.of = simulation.output
        try:
            if rank >= request.ranks:
                spawned.run(rank)
            else:
                _run_script(comm, line, code, worlds[rank])
        except SystemExit:
            exits.run(rank)
            raise
        except Exception as error:
            if not simulation.hub.is_ending:
                call_excepthook(error)
            raise
        exits.run(rank)
        if own.has_host_dates:
            simulation.context.note(HOST_DATES)
        output.collect()
        worlds[rank].end()
        if rank >= request.ranks:
            spawned.end(rank)

    program.__name__ = program.__qualname__ = request.name
    kept = {
        name: request.options.get(name)
        for name in ("storage", "lateness", "check", "summary", "warnings", "leave_out")
    }
    has_network = bool(request.on.network(request.model).collective_network)
    # the network serves the ranks that a run begins with, and a Blue Gene starts no others
    kept["spare_ranks"], kept["streams"] = 0 if has_network else SPARE_RANKS, output.streams
    (folder / BEGAN).touch()
    told = told_to(_LiveFile(folder / LIVE)) if (folder / LIVE).exists() else contextlib.nullcontext()
    with told:
        run = simulate_program(request.changed(program=program, args=(), isolate=None, options=kept))
    run.notes.extend(watched.notes())
    for printed in folder.glob("forked-*"):
        run.output[int(printed.name.partition("-")[2])] += printed.read_text("utf-8", "replace")
    return run


def _own_modules(worlds: dict[int, RankWorld], watched: WatchedModules | None) -> OwnModules:
    """Give each rank its own modules, and labkit a say when some are imported."""
    own = OwnModules(lambda: _running(worlds))
    own.when_imported["asyncio"] = _own_event_loops
    own.when_imported["socket"] = _patient_sockets
    own.when_imported["matplotlib._pylab_helpers"] = RankFigures.__enter__  # for the rest of this process
    own.when_imported["pandas"] = RankOptions.__enter__
    if watched is not None:
        own.after_import = watched.imported
    own.at_import |= dict.fromkeys(("threading", "concurrent", "asyncio", "multiprocessing"), _begin_threads)
    own.install()
    return own


class _LiveFile:
    """The view of a run that goes on, as a file that the parent reads."""

    def __init__(self, path: Path) -> None:
        self._path, self._part = path, path.with_suffix(".part")

    def show(self, status: str, lines: list[str]) -> None:
        """Write it again."""
        self._part.write_text(json.dumps([status.partition("; ")[2], lines]), "utf-8")
        self._part.replace(self._path)

    def end(self, status: str) -> None:
        """The parent sees the answer."""


def _run_script(comm: Intracomm, line: ScriptStart, code: CodeType, world: RankWorld) -> None:
    """Run the script on one of the ranks that the run began with."""
    if line.rc:
        environment.set_settings(line.rc)
    if line.is_pool:
        _with_workers(comm, code, world)
    else:
        exec(code, vars(world.main))


class _Descriptors:
    """What goes past `sys.stdout`, to descriptor 1: commands, compiled code, `os.write`."""

    def __init__(self, folder: Path, is_stream: bool) -> None:
        #: where the ranks' output goes
        self.streams = (os.dup(1), os.dup(2)) if is_stream else None
        self.of: Any = None
        if is_stream:
            return
        self._kept = os.open(folder / "descriptor-1", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._read = 0
        os.dup2(self._kept, 1)
        for owner, name in ((os, "write"), (os, "system"), (subprocess.Popen, "wait")):
            setattr(owner, name, self._collecting(getattr(owner, name)))

    def _collecting(self, whole: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(whole)
        def call(*arguments: object, **named: object) -> object:
            try:
                return whole(*arguments, **named)
            finally:
                self.collect()

        return call

    def collect(self) -> None:
        """Take in new output, as printed by the running rank."""
        rank = _kernels.current_rank() if self.streams is None and self.of is not None else -1
        while rank >= 0 and (data := os.pread(self._kept, 1 << 20, self._read)):
            self._read += len(data)
            self.of.add(rank, data.decode("utf-8", "replace"))


def _keep_printed(folder: Path, output: _Descriptors) -> None:
    """In a process that a rank has forked: what it prints goes into a file, for the rank's output."""
    output.of = None
    simulation = running()
    if simulation is not None and simulation.output.streams is None:
        simulation.output.keep_in(str(folder / f"forked-{simulation.hub.rank}"))


def _with_workers(comm: Intracomm, code: Any, world: RankWorld) -> None:
    """Run the program on rank 0, as the master of a pool; all other ranks are its workers."""
    from labkit.comm.futures.manager import pool_manager, serve

    manager = pool_manager()
    if comm.rank > 0:
        serve(manager.comm, 0, lambda: world.load_for_workers(code))
        return
    simulation = running()
    assert simulation is not None
    simulation.context.futures = manager
    exec(code, vars(world.main))
    manager.finish()
    manager.dismiss()


def _own_event_loops() -> None:
    from labkit.sim.isolation.event_loop import RankLoops

    RankLoops.__enter__()  # for the rest of this process


def _begin_threads() -> None:
    simulation = running()
    if simulation is not None:
        simulation.begin_threads()


def _patient_sockets() -> None:
    from labkit.sim.isolation.event_loop import RankSockets

    RankSockets.__enter__()  # for the rest of this process


def _running(worlds: dict[int, RankWorld]) -> RankWorld | None:
    rank = _kernels.current_rank()
    if rank < 0:
        owner = owner_of_thread()
        rank = -1 if owner is None else owner.rank
    return worlds.get(rank)


def live(folder: Path) -> NoReturn:
    """Be the process of a run, to its end."""
    watch_parent(lambda: _clean(folder))
    main(folder)
    sys.stdout.flush()
    sys.stderr.flush()
    _EXIT(0)  # whatever threads and exit handlers a script has left behind


if __name__ == "__main__":
    live(Path(sys.argv[1]))
