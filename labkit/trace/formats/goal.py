"""GOAL, the text of LogGOPSim and its kin: read and run here, written from traces and from schedules."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labkit.errors import DataError, ScheduleError
from labkit.trace.formats.text import open_out, pieces
from labkit.trace.formats.ti_reader import read_actions

__all__ = ["is_goal", "read_goal", "schedule_trace", "without_collectives", "write_goal"]


def is_goal(path: Path) -> bool:
    """Whether a file begins as GOAL does, comments apart."""
    text = next(pieces(path), b"").decode("utf-8", "replace")
    return re.match(r"(?>\s|//[^\n]*\n|#[^\n]*\n|/\*.*?\*/)*+num_ranks\b", text, re.DOTALL) is not None


def read_goal(path: str | os.PathLike[str]) -> Any:
    """Read GOAL text, packed with gzip or not.

    Parameters
    ----------
    path : path

    Returns
    -------
    labkit._kernels.GoalProgram
        `labkit.replay` takes it, and the path as well.

    Raises
    ------
    DataError
        File, line, reason and what is allowed.

    References
    ----------
    .. [1] T. Hoefler, T. Schneider, A. Lumsdaine: LogGOPSim: simulating large-scale applications in the
       LogGOPS model. HPDC 2010. doi:10.1145/1851476.1851564
    """
    from labkit import _kernels

    reader = _kernels.GoalReader(str(path))
    for piece in pieces(Path(path)):
        reader.feed(piece)
    return reader.take()


def without_collectives(trace: Any, on: Any = "star", coll: Mapping[str, str] | None = None) -> bytes:
    """Replace the collectives of a trace by the messages of their algorithms.

    Parameters
    ----------
    trace : path or ActionTrace
    on : str or Platform
        The trace is replayed there; it decides nothing but what a receive from any source gets.
    coll : mapping, optional
        Algorithms, as in `labkit.replay`.

    Returns
    -------
    bytes
        Lines of a time-independent trace.
    """
    from labkit.sim.replay import chooser

    actions = read_actions(trace) if isinstance(trace, str | os.PathLike) else trace
    return _messages(actions, on, chooser(dict(coll or {})))


def _messages(actions: Any, on: Any, choose: Any) -> bytes:
    from labkit import _kernels
    from labkit.platform import platform

    machine = platform(on)
    ranks = int(actions.ranks)
    engine = _kernels.Replay(machine.build(ranks), machine.model.build(), actions, choose)
    engine.keep_calls()
    if not engine.run(lambda: True):
        raise DataError("the trace deadlocks; labkit.replay says where")
    return b"".join(engine.call_lines(rank) for rank in range(ranks))


def schedule_trace(schedule: Any, n_bytes: int = 8) -> bytes:
    """Write the messages of one collective's schedule as a time-independent trace.

    Parameters
    ----------
    schedule : labkit.schedule.Schedule
        Any but those of vector collectives, whose sizes differ from rank to rank.
    n_bytes : int
        The message of a bcast, reduction or scan; one block of the others.

    Raises
    ------
    ScheduleError
        A vector collective.
    """
    from labkit.sim.schedules import program_of

    name, root = schedule.problem.name, schedule.root
    if schedule.problem.layout == "table":
        raise ScheduleError(f"{name} has blocks of many sizes; record a run of it instead (trace_ti)")
    words = {
        "barrier": "barrier",
        "bcast": f"bcast {n_bytes} {root} 6",
        "reduce": f"reduce {n_bytes} 0 {root} 6",
        "reduce_scatter_block": "reducescatter " + f"{n_bytes} " * schedule.size + "0 6",
    }
    if name in ("gather", "scatter"):
        line = f"{name} {n_bytes} {n_bytes} {root} 6 6"
    elif name in ("allgather", "alltoall"):
        line = f"{name} {n_bytes} {n_bytes} 6 6"
    else:
        line = words.get(name, f"{name} {n_bytes} 0 6")
    text = "".join(f"{rank} {line}\n" for rank in range(schedule.size))
    return _messages(_from_text(text.encode()), "star", lambda *_: program_of(schedule))


def _from_text(text: bytes) -> Any:
    with tempfile.TemporaryDirectory(prefix="labkit-goal-") as folder:
        path = Path(folder) / "trace.txt"
        path.write_bytes(text)
        return read_actions(path)


def write_goal(
    path: str | os.PathLike[str],
    source: Any,
    *,
    n_bytes: int = 8,
    coll: Mapping[str, str] | None = None,
    flops_per_s: float = 1e9,
) -> None:
    """Write a trace or a schedule as GOAL.

    Parameters
    ----------
    path : path
        Packed when its name ends in .gz.
    source : path, ActionTrace or Schedule
        A time-independent trace (its collectives become the messages of their algorithms), or a schedule.
    n_bytes : int
        Of a schedule: see `schedule_trace`.
    coll : mapping, optional
        Algorithms of a trace's collectives.
    flops_per_s : float
        GOAL counts nanoseconds: what turns a trace's flops into them. Rounded to whole ones.

    Raises
    ------
    DataError, ScheduleError
        The source cannot be read or used.

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
    actions = _from_text(text)
    tags: dict[tuple[int, int], int] = {}
    with open_out(path) as file:
        file.write(f"num_ranks {actions.ranks}\n".encode())
        for rank in range(actions.ranks):
            file.write(f"\nrank {rank} {{\n".encode())
            for line in _Graph(rank, tags, flops_per_s).lines(actions.records(rank)):
                file.write(line.encode() + b"\n")
            file.write(b"}\n")


class _Graph:
    """One rank's actions as operations and what they require."""

    def __init__(self, rank: int, tags: dict[tuple[int, int], int], flops_per_s: float) -> None:
        self.rank = rank
        self.tags = tags
        self.flops_per_s = flops_per_s
        self.count = 0
        #: what the next operation requires
        self.before: list[int] = []
        #: posted and not waited for: by source, destination, tag, communicator
        self.open: dict[tuple[int, int, int, int], list[int]] = {}

    def lines(self, records: list[Any]) -> Iterator[str]:
        for action, args, amount, comm, _line in records:
            if action in ("compute", "sleep"):
                nanoseconds = amount / self.flops_per_s * 1e9 if action == "compute" else amount * 1e9
                yield from self.add(f"calc {round(nanoseconds)}", True)
            elif action in ("wait", "waitall"):
                self.wait(args if action == "wait" else args[1:], comm)
            elif action not in ("test", "probe", "phase begin", "phase end"):
                yield from self.message(action, args, comm)

    def message(self, action: str, args: list[int], comm: int) -> Iterator[str]:
        peer, label, size = args
        is_send = action.endswith("send")
        tag = self.tags.setdefault((comm, label), len(self.tags)) if label >= 0 else -1
        verb, side = ("send", "to") if is_send else ("recv", "from")
        is_blocking = not action.startswith("i")
        if peer < 0 or tag < 0 or size < 0:
            raise DataError(
                f"rank {self.rank} receives from any source, with any tag or of any size, which GOAL cannot "
                "say; record the run with labkit, which writes what it got"
            )
        yield from self.add(f"{verb} {size}b {side} {peer} tag {tag}", is_blocking)
        if not is_blocking:
            key = (self.rank, peer, label, comm) if is_send else (peer, self.rank, label, comm)
            self.open.setdefault(key, []).append(self.count)

    def add(self, text: str, is_blocking: bool) -> Iterator[str]:
        """Write an operation; one that blocks is what the next one requires."""
        self.count += 1
        yield f"l{self.count}: {text}"
        for before in self.before:
            yield f"l{self.count} requires l{before}"
        if is_blocking:
            self.before = [self.count]

    def wait(self, keys: list[int], comm: int) -> None:
        """Let the next operation require those of these keys too; no keys: everything that is open."""
        if not keys:
            self.before = [*self.before, *(op for ops in self.open.values() for op in ops)]
            self.open = {}
            return
        for at in range(0, len(keys), 3):
            ops = self.open.get((*keys[at : at + 3], comm))  # type: ignore[arg-type]
            if ops:
                self.before = [*self.before, ops.pop(0)]
