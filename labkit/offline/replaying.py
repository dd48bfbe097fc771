"""Off-line simulation: a trace of what the ranks did, carried out on any simulated machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labkit.errors import DeadlockError, TimeLimitError
from labkit.offline.goal import is_goal, read_goal
from labkit.offline.reading import DEFAULT_LIMIT_BYTES, read_actions
from labkit.run.front import check_limit, check_platform
from labkit.run.result import Run
from labkit.run.tolerance import check_tolerance
from labkit.sim.deadlock import Waiting, report
from labkit.sim.where import lines_of

__all__ = ["chooser", "replay"]


def replay(
    trace: str | os.PathLike[str] | Any,
    on: Any = "star",
    *,
    model: Any = None,
    coll: Mapping[str, str] | None = None,
    mapping: Any = None,
    timeout_s: float | None = 60.0,
    tolerance: float = 0.0,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Run:
    """Replay a time-independent trace on a simulated machine.

    A rank goes through its actions: computation takes its flops divided by the host's speed, messages go over
    the platform, collectives run by their algorithms. No program runs and no data moves.

    Parameters
    ----------
    trace : path, ActionTrace or GoalProgram
        A file in SimGrid's format (see `labkit.offline.read_actions`) or GOAL, or what has been read of one.
    on : str or Platform
        The machine, as in `labkit.run`.
    model : str or NetworkModel, optional
        Default: the platform's.
    coll : mapping, optional
        Algorithms of the collectives, for example ``{"allreduce": "ring"}``; default as in `labkit.run`.
    mapping : str, path or sequence of int, optional
        Hosts of the ranks, as in `labkit.run`.
    timeout_s : float or None
        Limit of host time for the replay, reading included.
    tolerance : float
        As in `labkit.run`.
    limit_bytes : int
        What the actions may take in memory.

    Returns
    -------
    Run
        Its `machine` also has the number of actions, and each rank's end as `finish_s`.

    Raises
    ------
    DataError
        The trace cannot be read or carried out: file, line and reason.
    PlatformError, MachineError, ScheduleError
        The machine or an algorithm cannot be used.
    DeadlockError, TimeLimitError
        With the ranks and their lines.

    Notes
    -----
    A run that was recorded on a platform and is replayed on the same one gives the same makespan but for
    rounding (flops are written with 17 digits). What is decided by time does not repeat itself on another
    machine: which message a receive from any source gets was decided when it was recorded.
    """
    check_limit(timeout_s)
    tolerance = check_tolerance(tolerance)
    began = time.perf_counter()
    actions: Any = trace
    name = "trace"
    if isinstance(trace, str | os.PathLike):
        actions, name = _read(Path(trace), limit_bytes), Path(trace).name
    read_s = time.perf_counter() - began
    ranks = int(actions.ranks)
    machine = check_platform(on, ranks, model, coll, mapping)
    network = _network(machine, model)
    engine = _engine(machine.build(ranks), network.build(), actions, coll, tolerance)
    limit = float("inf") if timeout_s is None else began + timeout_s
    if not engine.run(lambda: time.perf_counter() < limit):
        if time.perf_counter() < limit:
            raise DeadlockError(_deadlock(engine, ranks))
        raise TimeLimitError(
            f"the replay took more than its time limit of {timeout_s:g} s of host time\n"
            f"{_where(engine, ranks)}"
        )
    run = Run(name, ranks, machine.name, network.name, results=[None] * ranks, output=[""] * ranks)
    run.makespan_s, run.messages, run.bytes = float(engine.makespan), int(engine.messages), int(engine.bytes)
    run.host_seconds = time.perf_counter() - began
    run.machine = {
        "platform": machine.spec,
        "model": network.name,
        "events": int(engine.events),
        "actions": int(actions.actions),
        "read_seconds": read_s,
        "finish_s": list(engine.finish_s),
    }
    run.notes = _notes(engine)
    return run


def _engine(built: Any, model: Any, actions: Any, coll: Mapping[str, str] | None, tolerance: float) -> Any:
    from labkit import _kernels

    if isinstance(actions, _kernels.GoalProgram):
        return _kernels.GoalRun(built, model, actions, tolerance)
    return _kernels.Replay(built, model, actions, chooser(dict(coll or {})), False, tolerance)


def _read(path: Path, limit_bytes: int) -> Any:
    """Read a trace, or GOAL: its first word says which it is."""
    return read_goal(path) if is_goal(path) else read_actions(path, limit_bytes)


def _network(machine: Any, model: Any) -> Any:
    from labkit.sim import models

    return models.get(machine.model if model is None else model)


def chooser(coll: dict[str, str]) -> Callable[[str, int, int, int, bool, bool], Any]:
    """Return the function that the replay asks for a collective's schedule: the choice of `labkit.run`.

    Raises
    ------
    ScheduleError
        For an unknown collective or algorithm.
    """
    from labkit import registry
    from labkit.comm.native import check_choice
    from labkit.schedule.native import program

    check_choice(coll)

    def choose(
        problem: str, ranks: int, root: int, n_bytes: int, is_commutative: bool, is_cuttable: bool
    ) -> Any:
        name = coll.get(problem)
        if name is None:
            name = registry.default(problem, ranks, n_bytes, is_commutative, is_cuttable).name
        return program(problem, name, ranks, root, is_commutative)

    return choose


def _notes(engine: Any) -> list[str]:
    idle = int(engine.idle_waits)
    if not idle:
        return []
    return [
        f"{idle} wait{'s' if idle > 1 else ''} found no open request with its source, destination and tag, "
        "and went on (a test may have taken it)"
    ]


def _row(engine: Any, rank: int) -> tuple[bool, str, tuple[int, ...]]:
    is_finished, place, action, peers = engine.where(rank)
    if is_finished:
        return True, "finished", ()
    if not place:
        return False, "before its first action", ()
    return False, f"{action} at {place}", tuple(peers)


def _where(engine: Any, ranks: int) -> str:
    return "\n".join(lines_of((rank, _row(engine, rank)[1]) for rank in range(ranks)))


def _deadlock(engine: Any, ranks: int) -> str:
    """Write the report: who waits at which line, and the cycle."""
    waits = {}
    for rank in range(ranks):
        is_finished, text, peers = _row(engine, rank)
        if not is_finished:
            waits[rank] = Waiting(text, peers)
    return report(waits, ranks)
