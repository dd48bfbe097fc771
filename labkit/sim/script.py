"""The simulation of an unmodified mpi4py script, in a process of its own that can be ended."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

from labkit.errors import MachineError, TimeLimitError
from labkit.process.child import ChildProcess, ending_text, module_words, no_room, private_folder
from labkit.process.stacks import read_stack
from labkit.request import RunRequest
from labkit.result import Run
from labkit.sim.script_child import ANSWER, FAULT, NO_SPACE, REQUEST

__all__ = ["simulate_script"]

#: the simulator ends a run at its limit itself, with a report; the process is killed only if it has not
GRACE_S = 5.0


def simulate_script(request: RunRequest) -> Run:
    """Run a script on simulated ranks, each with its own `__main__` and its own copy of the user's modules.

    Parameters
    ----------
    request : RunRequest
        As `labkit.sim.machine.Simulated.checked` returned it.

    Returns
    -------
    Run
        Its results are None: a script returns nothing.

    Raises
    ------
    RankError, DeadlockError, TimeLimitError
        The run failed.
    MachineError
        The simulator's process failed or was killed.
    """
    started = time.monotonic()
    with private_folder() as folder:
        try:
            (folder / REQUEST).write_bytes(pickle.dumps(request))
        except OSError as error:
            raise no_room(folder.parent, error.strerror or error) from error
        code = _run_child(folder, None if request.timeout_s is None else request.timeout_s + GRACE_S)
        answer = _read_answer(folder, code, request.timeout_s)
    if isinstance(answer, BaseException):
        raise answer
    run: Run = answer
    run.host_seconds = time.monotonic() - started
    return run


def _run_child(folder: Path, limit_s: float | None) -> int | None:
    """Start the child and wait; return its exit code, None when it was killed at the limit."""
    with ChildProcess(module_words("labkit.sim.script_child", folder), is_watched=True) as child:
        return child.code if child.wait(limit_s) else None


def _read_answer(folder: Path, code: int | None, timeout_s: float | None) -> Any:
    if (folder / ANSWER).exists():
        return pickle.loads((folder / ANSWER).read_bytes())
    if code is None:
        return TimeLimitError(
            f"the simulation did not end within its time limit of {timeout_s:g} s, nor when it was told to; "
            "it was killed. A rank that never communicates, in code that cannot be interrupted, does that; "
            "so do too many ranks for this host"
        )
    if code == NO_SPACE:
        return no_room(folder.parent, "it has no room for the run's results and output")
    if code >= 0:
        return MachineError(f"the simulator's process {ending_text(code)} and left no result")
    where = "\n".join(frame.text() for frame in read_stack(folder / FAULT))
    place = f"; a rank was at\n{where}" if where else ""
    return MachineError(f"the simulator's process {ending_text(code)}{place}")
