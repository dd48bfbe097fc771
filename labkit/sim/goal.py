"""Traces and schedules as messages alone: a collective gives way to what its algorithm sends; GOAL."""

from __future__ import annotations

import os
from typing import Any

from labkit import _kernels
from labkit.comm.collective.actions import action_of
from labkit.comm.collective.native import Bound, Call
from labkit.errors import DataError, ScheduleError
from labkit.platform import platform
from labkit.process.folders import private_folder
from labkit.schedule.schedule import program_of
from labkit.selector import Choices, selector_of
from labkit.sim.replay import chooser
from labkit.trace.formats.goal import write_messages
from labkit.trace.formats.ti_reader import read_actions

__all__ = ["schedule_trace", "without_collectives", "write_goal"]


def without_collectives(trace: Any, on: Any = "star", coll: Any = None) -> bytes:
    """Replace the collectives of a trace by the messages of their algorithms."""
    actions = read_actions(trace) if isinstance(trace, str | os.PathLike) else trace
    return _messages(actions, on, chooser(Choices(selector_of(coll))))


def _messages(actions: Any, on: Any, choose: Any) -> bytes:
    machine = platform(on)
    ranks = int(actions.ranks)
    engine = _kernels.Replay(machine.build(ranks), machine.model.build(), actions, choose)
    engine.keep_calls()
    if not engine.run(lambda: True):
        raise DataError("the trace deadlocks; labkit.replay says where")
    return b"".join(engine.call_lines(rank) for rank in range(ranks))


def schedule_trace(schedule: Any, n_bytes: int = 8) -> bytes:
    """Write the messages of one collective's schedule as a time-independent trace."""
    name, root = schedule.problem.name, schedule.root
    if schedule.problem.layout == "table":
        raise ScheduleError(f"{name} has blocks of many sizes; record a run of it instead (trace_ti)")
    message = Bound(None, 1, n_bytes)
    call = Call(name, name, root, {}, n_bytes, buffers=(message, message))
    line = action_of(call, schedule.size, root, 0)
    text = "".join(f"{rank} {line}\n" for rank in range(schedule.size))
    return _messages(_from_text(text.encode()), "star", lambda *_: program_of(schedule))


def _from_text(text: bytes) -> Any:
    with private_folder() as folder:
        path = folder / "trace.txt"
        path.write_bytes(text)
        return read_actions(path)


def write_goal(
    path: str | os.PathLike[str],
    source: Any,
    *,
    n_bytes: int = 8,
    coll: Any = None,
    flops_per_s: float = 1e9,
) -> None:
    """Write a trace or a schedule as GOAL.

    Notes
    -----
    What blocks in the trace is what the next operation requires. GOAL knows no communicators: tags are
    numbered anew, one for each pair of communicator and tag. It knows no probes and tests either; they are
    left out.
    """
    if hasattr(source, "problem"):
        text = schedule_trace(source, n_bytes)
    else:
        text = without_collectives(source, coll=coll)
    write_messages(path, _from_text(text), flops_per_s)
