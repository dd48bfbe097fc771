"""The process in which a script's ranks run: ``python -m labkit.sim.script_child FOLDER``.

FOLDER holds the request; the answer, a Run or an exception, is left there. `mpi4py.MPI` is the simulated
module here, and the clocks of `time` tell simulated time to a rank.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from labkit import _kernels
from labkit.comm.module import simulated_module
from labkit.context import current
from labkit.errors import LabkitError, MachineError, RankError
from labkit.process.child import ending_text
from labkit.process.tree import JOB_VARIABLE, end_processes
from labkit.process.watchdog import watch_parent
from labkit.request import RunRequest
from labkit.sim.isolation.mpi4py_name import SimulatedName
from labkit.sim.isolation.rank_world import OwnModules, RankWorld
from labkit.sim.simulation import running
from labkit.sim.where import place_of

__all__ = ["main"]

_EXIT = os._exit

REQUEST, ANSWER, FAULT = "request.pickle", "answer.pickle", "fault"

#: exit code when the answer could not be written
NO_SPACE = 74


def main(folder: Path) -> None:
    """Run the request and leave the answer; what goes wrong is an answer too."""
    answer: Any
    _record_crashes(folder)
    _name_the_rank_that_leaves(folder)
    try:
        answer = _simulate(pickle.loads((folder / REQUEST).read_bytes()))
    except (LabkitError, KeyboardInterrupt) as error:
        answer = error
    except BaseException as error:
        answer = MachineError(f"the simulator itself failed: {type(error).__name__}: {error}")
        answer.__cause__ = error
    _leave(answer, folder)


def _leave(answer: Any, folder: Path) -> None:
    partial = folder / f"{ANSWER}.part"
    try:
        partial.write_bytes(pickle.dumps(answer))
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
    """Say which rank ended itself, and where: `os._exit` or a signal would end all ranks without a word."""
    home = os.getpid()
    send, abort = os.kill, os.abort

    def say(what: str, frame: FrameType) -> None:
        simulation = running()
        if simulation is not None and os.getpid() == home:  # not a process that a rank has forked
            rank, place = simulation.hub.rank, place_of(frame)
            text = f"rank {rank} {what} at {place}"
            error = RankError(rank, text, text)
            error.attach_output(simulation.output.texts())
            _leave(error, folder)

    def leave(status: int) -> NoReturn:
        say(f"left with os._exit({status})", sys._getframe(1))
        _EXIT(status)

    def kill(pid: int, number: int, /) -> None:
        if pid == home and _ends(number):
            say(_signal_text(number), sys._getframe(1))
        send(pid, number)

    def raise_signal(number: int, /) -> None:
        if _ends(number):
            say(_signal_text(number), sys._getframe(1))
        send(os.getpid(), number)

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


def _simulate(request: RunRequest) -> Any:
    from labkit.sim.runner import simulate

    path = str(request.program)
    directory = str(Path(path).resolve().parent)
    sys.argv = [path, *map(str, request.args)]
    sys.path.insert(0, directory)
    SimulatedName(simulated_module()).__enter__()  # for the rest of this process
    _simulate_clocks()
    worlds: list[RankWorld] = []
    own = OwnModules(directory, lambda: _running(worlds))
    own.install()
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    worlds.extend(RankWorld(own, path) for _ in range(request.ranks))

    def program(comm: Any) -> None:
        exec(code, vars(worlds[comm.rank].main))

    program.__name__ = program.__qualname__ = Path(path).name
    return simulate(request.changed(program=program, args=(), isolate=None))


def _running(worlds: list[RankWorld]) -> RankWorld | None:
    rank = _kernels.current_rank()
    return worlds[rank] if 0 <= rank < len(worlds) else None


def _simulate_clocks() -> None:
    """Let a rank's `time.sleep` pass simulated time, and its clocks read it."""
    for name in ("time", "perf_counter", "monotonic", "process_time"):
        setattr(time, name, _clock(getattr(time, name), lambda seconds: seconds))
        nanoseconds = f"{name}_ns"
        setattr(time, nanoseconds, _clock(getattr(time, nanoseconds), lambda seconds: int(seconds * 1e9)))

    host_sleep = time.sleep

    def sleep(seconds: Any) -> None:
        simulation = running()
        if simulation is None:
            host_sleep(seconds)
        else:
            if seconds < 0:
                raise ValueError("sleep length must be non-negative")
            simulation.context.sleep(seconds)

    time.sleep = sleep


def _clock(host: Callable[[], Any], from_seconds: Callable[[float], Any]) -> Callable[[], Any]:
    def read() -> Any:
        context = current()
        return host() if context is None else from_seconds(context.wtime())

    return read


if __name__ == "__main__":
    # What goes past sys.stdout (compiled code, os.write) must not mix with the caller's own output.
    os.dup2(2, 1)
    own_folder = Path(sys.argv[1])
    watch_parent(lambda: _clean(own_folder))
    main(own_folder)
    sys.stdout.flush()
    sys.stderr.flush()
    _EXIT(0)  # whatever threads and exit handlers a script has left behind
