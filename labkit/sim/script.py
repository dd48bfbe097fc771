"""Simulate an unmodified mpi4py script, in a process of its own that can be ended."""

from __future__ import annotations

import os
import pickle
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labkit.checks import check_script
from labkit.errors import MachineError, TimeLimitError
from labkit.local.costs import find_calibration
from labkit.process.stacks import read_stack
from labkit.process.tree import JOB_VARIABLE, end_processes
from labkit.result import Run
from labkit.sim.script_child import ANSWER, FAULT, NO_SPACE, REQUEST

__all__ = ["run_script"]

#: the simulator ends a run at its limit itself, with a report; the process is killed only if it has not
GRACE_S = 5.0


def run_script(
    path: str | os.PathLike[str],
    ranks: int,
    *,
    on: Any,
    args: Sequence[Any] = (),
    model: Any = None,
    trace: bool = False,
    timeout_s: float | None = 60.0,
    seed: int = 0,
    coll: Any = None,
    tolerance: float = 0.0,
    calibration: Any = None,
    trace_ti: str | os.PathLike[str] | None = None,
    noise: Any = None,
    compute: Any = "charged",
) -> Run:
    """Run a script on simulated ranks, each with its own `__main__` and its own copy of the user's modules.

    Parameters
    ----------
    path : path
        The script; ``from mpi4py import MPI`` gives it the simulated module.
    ranks : int
        Number of ranks, at least 1.
    on : Platform
        The platform.
    args : sequence
        The script's command line, ``sys.argv[1:]``.
    model, trace, timeout_s, seed, coll, tolerance, calibration, trace_ti, noise, compute
        As for `labkit.run.run`.

    Returns
    -------
    Run
        Its results are None: a script returns nothing.

    Raises
    ------
    ProgramError
        The script is not Python.
    RankError, DeadlockError, TimeLimitError
        The run failed.
    MachineError
        The simulator's process failed or was killed.
    """
    path = os.fspath(path)
    check_script(path)
    how = {
        "on": on, "model": model, "trace": trace, "timeout_s": timeout_s, "seed": seed, "coll": coll,
        "tolerance": tolerance, "calibration": find_calibration(calibration), "trace_ti": trace_ti,
        "noise": noise, "compute": compute,
    }  # fmt: skip
    request = {"path": path, "ranks": ranks, "args": [str(arg) for arg in args], "how": how}
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="labkit-script-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            (folder / REQUEST).write_bytes(pickle.dumps(request))
        except OSError as error:
            raise _no_space(folder, error.strerror or str(error)) from error
        code = _run_child(folder, None if timeout_s is None else timeout_s + GRACE_S)
        answer = _read_answer(folder, code, timeout_s)
    if isinstance(answer, BaseException):
        raise answer
    run: Run = answer
    run.host_seconds = time.monotonic() - started
    return run


def _run_child(folder: Path, limit_s: float | None) -> int | None:
    """Start the child and wait; return its exit code, None when it was killed at the limit."""
    token = secrets.token_hex(16)
    lifeline, held = os.pipe()  # the child ends when this process, however it ends, no more holds its end
    try:
        # -P: the folder this process happens to be in must not decide which labkit is imported.
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "labkit.sim.script_child", str(folder), str(lifeline)],
            stdin=subprocess.DEVNULL,
            pass_fds=(lifeline,),
            start_new_session=True,
            env={**os.environ, JOB_VARIABLE: token},
        )
        try:
            return child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_processes(token, child.pid)
            child.wait()
    finally:
        os.close(lifeline)
        os.close(held)


def _read_answer(folder: Path, code: int | None, timeout_s: float | None) -> Any:
    if (folder / ANSWER).exists():
        return pickle.loads((folder / ANSWER).read_bytes())
    if code is None:
        return TimeLimitError(
            f"the simulation did not end within its time limit of {timeout_s:g} s, nor when it was told to; "
            "it was killed. A rank that never communicates, in code that cannot be interrupted, does that; "
            "so do too many ranks for this host"
        )
    if code < 0:
        return MachineError(_signal_text(-code, folder))
    if code == NO_SPACE:
        return _no_space(folder, "it has no room for the run's results and output")
    return MachineError(f"the simulator's process ended with exit code {code} and left no result")


def _signal_text(number: int, folder: Path) -> str:
    """Say which signal ended the simulator, and where a rank was when it crashed."""
    text = f"the simulator's process was ended by {signal.Signals(number).name}"
    if number == signal.SIGKILL:
        return f"{text}; where neither a rank nor somebody else sent it, the machine ran out of memory"
    where = "\n".join(frame.text() for frame in read_stack(folder / FAULT))
    return f"{text}; a rank was at\n{where}" if where else text


def _no_space(folder: Path, reason: str) -> MachineError:
    return MachineError(
        f"the private folder of this run cannot be written in {folder.parent}: {reason}; "
        "free some space, or set TMPDIR to a folder that can be written"
    )
