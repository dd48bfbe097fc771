"""Off-line simulation: a trace of what the ranks did, carried out on any simulated machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels
from labkit.checks import check_limit, check_tolerance
from labkit.comm.collective.calls import action_of
from labkit.comm.collective.native import BoundBuffer, Call
from labkit.errors import DataError, DeadlockError, ScheduleError, TimeLimitError
from labkit.machines import platform
from labkit.machines.mapping import crowding
from labkit.machines.noise import noise_of
from labkit.process.folders import private_folder
from labkit.registry import program
from labkit.result import Run, phase_frame
from labkit.schedule.schedule import program_of
from labkit.selector import Choices, selector_of
from labkit.sim.deadlock import BlockedRank, deadlock_error
from labkit.sim.isolation import host_clock
from labkit.sim.machine import platform_for
from labkit.sim.schedules import choices_on
from labkit.sim.where import lines_of
from labkit.trace.formats.ti_writer import (
    DEFAULT_LIMIT_BYTES,
    is_goal,
    read_actions,
    read_goal,
    write_messages,
)
from labkit.trace.recorder.timeline import join_calls
from labkit.trace.trace import NO_PHASE, Trace, by_entry

if TYPE_CHECKING:
    import pandas as pd

    from labkit.machines.models import NetworkModel

__all__ = ["chooser", "replay", "schedule_trace", "without_collectives", "write_goal"]


def replay(
    source: str | os.PathLike[str] | object,
    on: object = "star",
    *,
    model: object = None,
    coll: object = None,
    mapping: object = None,
    timeout_s: float | None = 60.0,
    tolerance: float = 0.0,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    trace: bool = False,
    noise: Any = None,
    seed: int = 0,
) -> Run:
    """Replay a time-independent trace on a simulated machine.

    A rank goes through its actions: computation takes its flops divided by the host's speed, messages go over
    the platform, collectives run by their algorithms. No program runs and no data moves.

    Parameters
    ----------
    source : path, ActionTrace or GoalProgram
        A file in SimGrid's format (see `labkit.trace.formats.read_actions`) or GOAL, or what has
        been read of one.
    on : str or Platform
        The machine, as in `labkit.run`.
    model : str or NetworkModel, optional
        Default: the platform's.
    coll : mapping, path or Selector, optional
        Algorithms of the collectives, for example ``{"allreduce": "ring"}``, a file of rules or a selector
        (`labkit.selector`). What it leaves open is chosen as MPI libraries do; `Run.collectives` lists them.
    mapping : str, path or sequence of int, optional
        Hosts of the ranks, as in `labkit.run`.
    timeout_s : float or None
        Limit of host time for the replay, reading included.
    tolerance : float
        As in `labkit.run`.
    limit_bytes : int
        What the actions may take in memory.
    trace : bool
        Record every message, so that `Run.explain` can say what the time went into.
    noise : Noise or str, optional
        What disturbs the machine, as in `labkit.run`.
    seed : int
        Draws the noise that names no seed.

    Returns
    -------
    Run
        Its `machine` also has the number of actions, and each rank's end as `finish_s`; its phases are those
        that labkit wrote down with the trace.

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
    began = host_clock.perf_counter()
    limit = float("inf") if timeout_s is None else began + timeout_s

    def still(what: str = "reading the trace") -> None:
        if host_clock.perf_counter() > limit:
            raise TimeLimitError(f"{what} took more than its time limit of {timeout_s:g} s of host time")

    actions: Any = source
    name = "trace"
    if isinstance(source, str | os.PathLike):
        actions, name = _read(Path(source), limit_bytes, still), Path(source).name
    read_s = host_clock.perf_counter() - began
    ranks = int(actions.ranks)
    still()
    machine = platform_for(on, ranks, model, mapping)
    network = machine.network(model)
    troubled = noise_of(noise).seeded(seed)
    built, worse_links = troubled.degrade(machine.build(ranks))
    still(f"reading the trace and preparing a platform for its {ranks:,} ranks")
    choose = chooser(choices_on(machine, ranks, network, coll))
    engine = _engine(built, network.build(), actions, choose, trace, tolerance)
    slow_hosts = troubled.disturb(engine, built)
    still(f"preparing the replay of {ranks:,} ranks")
    if trace and hasattr(engine, "note_calls"):
        engine.note_calls()
    try:
        has_ended = engine.run(lambda: host_clock.perf_counter() < limit)
    except ValueError as error:  # such as a computation whose time is no number under this noise
        raise DataError(f"{name}: {error}") from None
    if not has_ended:
        if host_clock.perf_counter() < limit:
            raise _deadlock(engine, ranks, network)
        raise TimeLimitError(
            f"the replay took more than its time limit of {timeout_s:g} s of host time\n"
            f"{_where(engine, ranks)}"
        )
    run = _as_run(engine, name, machine, network, trace)
    run.notes.extend([*crowding(built), *_taking_turns(actions)])
    run.machine |= {"actions": int(actions.actions), "read_seconds": read_s}
    if not troubled.is_quiet:
        run.machine["noise"] = troubled.record(slow_hosts, worse_links)
        run.notes.append(f"noise: {troubled}")
    run.host_seconds = host_clock.perf_counter() - began
    return run


def _taking_turns(actions: object) -> list[str]:
    """Note operations of GOAL on a further processor or interface."""
    elsewhere = getattr(actions, "elsewhere", 0)
    if not elsewhere:
        return []
    return [
        f"{elsewhere:,} operations name a further cpu or nic: a rank has one of each here, so they take turns"
    ]


def _as_run(engine: Any, name: str, machine: Any, network: Any, is_traced: bool) -> Run:
    """Return what the engine did as the run of a program that returns and prints nothing."""
    finish_s = list(engine.finish_s)
    ranks = len(finish_s)
    recorded = None
    if is_traced:
        columns = (engine.message_columns(), engine.wait_columns(), engine.computation_columns())
        recorded = Trace.from_columns(*columns, finish_s, (machine, network))
        if hasattr(engine, "call_columns"):
            recorded.calls = replayed_calls(engine.call_columns())
    return Run(
        name, ranks, machine.name, network.name, results=[None] * ranks, makespan_s=float(engine.makespan),
        phases=phase_frame(by_entry(engine.phases())), output=[""] * ranks,
        messages=int(engine.messages), bytes=int(engine.bytes), trace=recorded,
        machine={
            "platform": machine.spec, "model": network.name, **machine.placement(ranks),
            "events": int(engine.events), "finish_s": finish_s,
        },
        notes=_notes(engine),
    )  # fmt: skip


def _engine(
    built: Any, model: Any, actions: Any, choose: object, is_traced: bool, tolerance: float
) -> _kernels.GoalRun | _kernels.Replay:
    from labkit import _kernels

    if isinstance(actions, _kernels.GoalProgram):
        return _kernels.GoalRun(built, model, actions, is_traced, tolerance)
    return _kernels.Replay(built, model, actions, choose, is_traced, tolerance)


def _read(path: Path, limit_bytes: int, still: Callable[[], None]) -> Any:
    """Read a trace, or GOAL: the beginning decides which it is."""
    return read_goal(path, limit_bytes, still) if is_goal(path) else read_actions(path, limit_bytes, still)


def chooser(choices: Choices) -> Callable[[str, int, int, int, bool, bool], Any]:
    """Return the function that the replay asks for a collective's schedule: the choice of `labkit.run`."""

    def choose(
        problem: str, ranks: int, root: int, n_bytes: int, is_commutative: bool, is_cuttable: bool
    ) -> object:
        name = choices(problem, ranks, n_bytes, is_commutative, is_cuttable)
        return program(problem, name, ranks, root, is_commutative)

    return choose


def _notes(engine: Any) -> list[str]:
    idle, left, found = int(engine.idle_waits), engine.unreceived_columns(), []
    if idle:
        found.append(
            f"{idle} wait{'s' if idle > 1 else ''} found no open request with its source, destination and "
            "tag, and went on (a test may have taken it)"
        )
    if many := len(left["source"]):
        source, destination, tag = (int(left[name][0]) for name in ("source", "destination", "tag"))
        what = (
            "1 message was sent and never received:"
            if many == 1
            else (f"{many:,} messages were sent and never received, the first")
        )
        found.append(f"{what} from rank {source} to rank {destination} with tag {tag}")
    return found


def _row(engine: Any, rank: int) -> tuple[bool, str, tuple[int, ...]]:
    is_finished, place, action, peers = engine.where(rank)
    if is_finished:
        return True, "finished", ()
    if not place:
        return False, "before its first action", ()
    return False, f"{action} at {place}", tuple(peers)


def _where(engine: object, ranks: int) -> str:
    return "\n".join(lines_of((rank, _row(engine, rank)[1]) for rank in range(ranks)))


def _deadlock(engine: _kernels.GoalRun | _kernels.Replay, ranks: int, network: NetworkModel) -> DeadlockError:
    """Return the error: who waits at which line, the cycle, and what the messages under way do not match."""
    waits = {}
    for rank in range(ranks):
        is_finished, text, peers = _row(engine, rank)
        if not is_finished:
            waits[rank] = BlockedRank(text, peers)
    left = engine.unreceived_columns()
    return deadlock_error(waits, ranks, _unmatched(left, waits, network))


def _unmatched(
    left: Mapping[str, NDArray[np.int64]], waits: Mapping[int, BlockedRank], network: NetworkModel
) -> list[str]:
    """Return as sentences which sends are never received: of another tag, or too large to be buffered."""
    found = []
    rows = zip(*(left[name].tolist() for name in ("source", "destination", "tag", "bytes")), strict=True)
    for source, destination, tag, n_bytes in rows:
        what = f"rank {source} sends {n_bytes:,} B to rank {destination} with tag {tag}"
        if n_bytes >= network.detached_below_bytes and source in waits:
            found.append(
                f"{what}: in model {network.name}, a send of {network.detached_below_bytes:,} B or more "
                "waits for its receive; a smaller message is buffered"
            )
        elif destination in waits:
            found.append(f"{what}, which rank {destination} does not receive: compare the tags")
    return found


# The calls of a replay: the actions of its trace that stand for calls of MPI.


#: actions that are not called as the method but for its capital
_NAMES = {"send_recv": "Sendrecv", "wait_all": "Waitall", "reducescatter": "Reduce_scatter"}


def replayed_calls(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return `Trace.calls` of a replay; their places in a program are not known."""
    import pandas as pd

    rank = np.asarray(columns["rank"], np.int64)
    order = np.argsort(rank, kind="stable")
    rank, begin = rank[order], np.asarray(columns["begin_s"], np.float64)[order]
    comm = np.asarray(columns["comm"], np.int64)[order]
    words = [_NAMES.get(name, name.capitalize()) for name in columns["names"]]
    phases = np.array([*columns["phases"], NO_PHASE], object)  # the last: of a call outside, -1
    return pd.DataFrame(
        {
            "rank": rank,
            "call": np.array(words, object)[np.asarray(columns["action"])[order]],
            "bytes": np.asarray(columns["bytes"])[order],
            "begin_s": begin,
            "end_s": np.asarray(columns["end_s"])[order],
            "joint": join_calls({"rank": rank, "context": comm, "sequence": _numbered(rank, comm)}),
            "root": np.asarray(columns["root"], np.int64)[order],
            "position": np.asarray(columns["position"], np.int64)[order],
            "place": "",
            "phase": phases[np.asarray(columns["phase"])[order]],
            "algorithm": "",
        }
    )


def _numbered(rank: NDArray[np.int64], comm: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the collectives of each rank in each communicator; -1 for other calls."""
    import pandas as pd

    number = pd.Series(comm).groupby([rank, comm]).cumcount().to_numpy(np.int64)
    return np.where(comm >= 0, number, -1)


# Traces and schedules as messages alone: a collective gives way to what its algorithm sends; GOAL.


def without_collectives(trace: object, on: object = "star", coll: object = None) -> bytes:
    """Replace the collectives of a trace by the messages of their algorithms."""
    actions = read_actions(trace) if isinstance(trace, str | os.PathLike) else trace
    return _messages(actions, on, chooser(Choices(selector_of(coll))))


def _messages(actions: Any, on: object, choose: object) -> bytes:
    machine = platform(on)
    ranks = int(actions.ranks)
    engine = _kernels.Replay(machine.build(ranks), machine.model.build(), actions, choose)
    engine.keep_calls()
    if not engine.run(lambda: True):
        raise DataError("the trace deadlocks; labkit.replay shows where", code="deadlock")
    return b"".join(engine.call_lines(rank) for rank in range(ranks))


def schedule_trace(schedule: Any, n_bytes: int = 8) -> bytes:
    """Write the messages of one collective's schedule as a time-independent trace."""
    name, root = schedule.problem.name, schedule.root
    if schedule.problem.layout == "table":
        raise ScheduleError(f"{name} has blocks of many sizes; record a run of it instead (trace_ti)")
    message = BoundBuffer(None, 1, n_bytes)
    call = Call(name, name, root, {}, n_bytes, buffers=(message, message))
    line = action_of(call, schedule.size, root, 0)
    text = "".join(f"{rank} {line}\n" for rank in range(schedule.size))
    return _messages(_from_text(text.encode()), "star", lambda *_: program_of(schedule))


def _from_text(text: bytes) -> object:
    with private_folder() as folder:
        path = folder / "trace.txt"
        path.write_bytes(text)
        return read_actions(path)


def write_goal(
    path: str | os.PathLike[str],
    source: object,
    *,
    n_bytes: int = 8,
    coll: object = None,
    flops_per_s: float = 1e9,
) -> None:
    """Write a trace or a schedule as GOAL.

    Notes
    -----
    What blocks in the trace is what the next operation requires. GOAL knows no communicators: tags are
    renumbered, one for each pair of communicator and tag. It knows no probes and tests either; they are
    left out.
    """
    if hasattr(source, "problem"):
        text = schedule_trace(source, n_bytes)
    else:
        text = without_collectives(source, coll=coll)
    write_messages(path, _from_text(text), flops_per_s)
