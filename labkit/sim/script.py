"""The simulation of an unmodified mpi4py script, in a separate process that can be ended."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

from labkit.errors import MORE_TIME, MachineError, RunInterrupted, TimeLimitError
from labkit.process.child import ChildProcess, ending_text, given_input, module_words
from labkit.process.folders import no_room, private_folder
from labkit.process.stacks import read_stack
from labkit.request import RunRequest
from labkit.result import Run
from labkit.sim.script_words import ANSWER, BEGAN, FAULT, LIVE, NO_SPACE, REQUEST
from labkit.text.progress import Live

__all__ = ["simulate_script"]

#: the simulator ends a run at its limit itself, with a report; the process is killed only if it has not
GRACE_S = 5.0
#: how long an interrupted run has to hand over what its ranks have printed
HAND_OVER_S = 5.0


def simulate_script(request: RunRequest) -> Run:
    """Run a script on simulated ranks, each with its own `__main__` and copy of the user's modules."""
    started = time.monotonic()
    options = {name: value for name, value in request.options.items() if name != "stdin"}
    with private_folder() as folder, given_input(request.options.get("stdin")) as stdin:
        request = request.changed(options=options)
        try:
            (folder / REQUEST).write_bytes(pickle.dumps(request))
        except OSError as error:
            raise no_room(folder.parent, error.strerror or error) from error
        seen = _Seen(folder / LIVE)
        try:
            live = Live(_title(request), seen.status, seen.lines, bool(request.options.get("stream")))
            if live.is_on:
                (folder / LIVE).touch()
            code = _run_child(folder, request.timeout_s, stdin, live)
        except KeyboardInterrupt:
            raise _interrupted(folder) from None
        answer = _read_answer(folder, code, request.timeout_s)
    if isinstance(answer, BaseException):
        raise answer
    run: Run = answer
    run.host_seconds = time.monotonic() - started
    return run


def _title(request: RunRequest) -> str:
    return f"{request.name} on {request.on.name}, {request.ranks:,} ranks"


class _Seen:
    """The child's reports of a run in progress."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _read(self) -> tuple[str, list[str]]:
        with contextlib.suppress(OSError, ValueError):  # nothing yet
            status, lines = json.loads(self._path.read_text("utf-8"))
            return str(status), [str(line) for line in lines]
        return "starting", []

    def status(self) -> str:
        """Return as text how far it is."""
        return self._read()[0]

    def lines(self) -> list[str]:
        """Return the last lines that were printed."""
        return self._read()[1]


def _run_child(folder: Path, timeout_s: float | None, stdin: int, live: Live) -> int | None:
    """Start the child and wait; return its exit code, None when it was killed at the limit."""

    def target() -> None:
        from labkit.sim import script_child

        script_child.live(folder)

    limit_s = None if timeout_s is None else timeout_s + GRACE_S
    words = module_words("labkit.sim.script_child", folder)
    with ChildProcess(words, target=target, is_watched=True, stdin=stdin) as child, live:
        try:
            is_over = child.wait(limit_s)
            if not is_over and limit_s is not None and (folder / BEGAN).exists():
                # On a busy host it takes long to start; the limit is the run's.
                is_over = child.wait(max(0.0, (folder / BEGAN).stat().st_mtime + limit_s - time.time()))
            return child.code if is_over else None
        except KeyboardInterrupt:  # it has a separate session: the terminal has interrupted this process only
            os.kill(child.pid, signal.SIGINT)
            child.wait(HAND_OVER_S)
            raise


def _interrupted(folder: Path) -> RunInterrupted:
    """The interrupt with what the ranks had printed, as far as their process could still report it."""
    told = pickle.loads((folder / ANSWER).read_bytes()) if (folder / ANSWER).exists() else None
    return RunInterrupted(getattr(told, "output", None) or ())


def _read_answer(folder: Path, code: int | None, timeout_s: float | None) -> Any:
    if (folder / ANSWER).exists():
        return pickle.loads((folder / ANSWER).read_bytes())
    if code is None:
        return TimeLimitError(
            f"the simulation did not end within its time limit of {timeout_s:g} s, nor when it was asked to; "
            "it was killed. A rank that never communicates, in code that cannot be interrupted, does that; "
            f"so do too many ranks for this host; {MORE_TIME}"
        )
    if code == NO_SPACE:
        return no_room(folder.parent, "it has no room for the run's results and output")
    if code >= 0:
        return MachineError(
            f"the simulator's process {ending_text(code)} and left no result", code="lost-process"
        )
    where = "\n".join(frame.text() for frame in read_stack(folder / FAULT))
    place = f"; a rank was at\n{where}" if where else ""
    return MachineError(f"the simulator's process {ending_text(code)}{place}", code="lost-process")
