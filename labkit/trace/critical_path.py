"""The critical path of a recorded run: the chain of computations and transfers that made it so long.

It is walked backwards from the rank that ended last. On a rank, everything since its last wait was its own
work; the wait was ended by a message; that message could start when the later of its two sides was posted,
and there the path goes on. A nonblocking collective is a line of its own beside its rank's: a wait that its
end ended leads onto it, and its begin leads back to the rank. A collective of a real run joins its ranks: it
leads on to the last that came. The steps follow each other without a gap from
0 to the makespan, so their lengths add up to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import Trace

__all__ = ["Step", "critical_path"]

Kind = Literal["computation", "overhead", "transfer", "probe", "collective", "start"]


@dataclass(frozen=True)
class Step:
    """One step of a critical path.

    Attributes
    ----------
    kind : str
        ``computation`` (charged), ``overhead`` (a rank's own time in calls: os, ois, or, Wtime, Test),
        ``transfer`` (of a message), ``probe`` (a wait for a message that nobody had sent), ``collective`` (of
        a real run, from when its last rank came), ``start`` (of a real run: the rank had not begun).
    rank : int
        Where: of a transfer, the rank that waited for it.
    begin_s, end_s : float
        Seconds of simulated time.
    message : int
        Row in `Trace.messages`; -1 when it is no transfer.
    slowdown : float
        Of a computation: how many times longer it took than on a core of its own.
    """

    kind: Kind
    rank: int
    begin_s: float
    end_s: float
    message: int = -1
    slowdown: float = 1.0

    @property
    def seconds(self) -> float:
        """Length of the step."""
        return self.end_s - self.begin_s


class _ByLine:
    """Rows of a table, by line (a rank's, or an operation's), in the order in which they were recorded."""

    def __init__(self, table: pd.DataFrame, lines: int, line: NDArray[np.int64] | None = None) -> None:
        owner = table["rank"].to_numpy() if line is None else line
        self.order: NDArray[np.int64] = np.argsort(owner, kind="stable")
        self.first = np.searchsorted(owner[self.order], np.arange(lines + 1))
        self.begin_s = table["begin_s"].to_numpy()
        self.end_s = table["end_s"].to_numpy()
        #: in the order of lines, so that those of a line are a slice
        self.begins_s, self.ends_s = self.begin_s[self.order], self.end_s[self.order]
        self.slowdown: NDArray[np.float64] | None = None  # where cores were shared
        if "alone_s" in table:
            self.slowdown = np.maximum(1.0, (self.end_s - self.begin_s) / table["alone_s"].to_numpy())

    def rows(self, line: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the rows of a line, their begins and their ends."""
        own = slice(self.first[line], self.first[line + 1])
        return self.order[own], self.begins_s[own], self.ends_s[own]


class _Lines:
    """The lines that time runs along: ranks, then operations. What waited when, and who posted what."""

    def __init__(self, trace: Trace) -> None:
        self.ranks = len(trace.ends_s)
        self.begun_by = trace.begun_by or [-1] * self.ranks
        begins = trace.begins_s or [0.0] * self.ranks
        self.begin_s = np.where(np.array(self.begun_by, np.int64) >= 0, begins, 0.0)
        self.source, self.destination = (trace.messages[end].to_numpy() for end in ("source", "destination"))
        if trace.beside is None:
            self.waits, self.rank_of = _ByLine(trace.waits, self.ranks), np.arange(self.ranks)
            self.ended_by = trace.waits["message"].to_numpy()
            return
        waits, operations = trace.beside.waits, trace.beside.operations
        waiter = waits["operation"].to_numpy()
        line = np.where(waiter >= 0, self.ranks + waiter, waits["rank"].to_numpy())
        self.rank_of = np.concatenate([np.arange(self.ranks), operations["rank"].to_numpy()])
        self.waits = _ByLine(waits, len(self.rank_of), line)
        self.ended_by = waits["message"].to_numpy()
        self.begin_s = np.concatenate([self.begin_s, operations["begin_s"].to_numpy()])
        for end, side in (("source", "send_operation"), ("destination", "recv_operation")):
            by = trace.messages[side].to_numpy()
            setattr(self, end, np.where(by >= 0, self.ranks + by, getattr(self, end)))

    def last_wait(self, line: int, now: float, before: int) -> tuple[int, float]:
        """Return the last wait of a line that was over at a time, and its end; -1 and the line's begin."""
        own, _, ends_s = self.waits.rows(line)
        ended = np.searchsorted(ends_s, now, side="right")
        own = own[: min(ended, np.searchsorted(own, before))]
        if own.size:
            return int(own[-1]), float(self.waits.end_s[own[-1]])
        return -1, float(self.begin_s[line])


def critical_path(trace: Trace) -> list[Step]:
    """Walk the critical path of a run.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    list of Step
        From the start of the run to its end, without a gap. Where several ranks or messages end at the same
        time, the lowest rank's, and the sender's side of a message, is taken.
    """
    lines = _Lines(trace)
    ranks, waits, ended_by = lines.ranks, lines.waits, lines.ended_by
    work = _ByLine(trace.computations, ranks)
    sent, start = (trace.messages[when].to_numpy() for when in ("send_posted_s", "start_s"))

    ready = trace.waits["ready_s"].to_numpy() if "ready_s" in trace.waits else None
    origin = trace.waits["origin"].to_numpy() if ready is not None else lines.source

    line = int(np.argmax(trace.ends_s))
    now = float(trace.ends_s[line])
    before = len(ended_by)  # waits are recorded in order: an earlier one has a smaller row
    steps: list[Step] = []
    while now > 0.0:
        rank, is_beside = int(lines.rank_of[line]), line >= ranks
        row, resumed = lines.last_wait(line, now, before)
        if not is_beside:
            steps += _own_work(work, rank, resumed, now)
        elif resumed < now:
            steps.append(Step("overhead", rank, resumed, now))
        if row < 0:
            line, now = rank if is_beside else lines.begun_by[rank], resumed
            if line < 0:
                break
            continue
        before = row
        message = int(ended_by[before])
        if ready is not None:  # of a real run: on whom it waited, and until when
            now = float(ready[before])
            kind: Kind = "transfer" if message >= 0 else "collective"
            steps.append(Step(kind, rank, now, resumed, message))
            line = int(origin[before])
            continue
        if message < -1:
            line, now = ranks - 2 - message, resumed
            continue
        if message < 0:
            steps.append(Step("probe", rank, float(waits.begin_s[before]), resumed))
            now = float(waits.begin_s[before])
            continue
        now = float(start[message])
        steps.append(Step("transfer", rank, now, resumed, message))
        line = int(lines.source[message] if sent[message] >= now else lines.destination[message])
    if trace.begins_s is not None and steps and steps[-1].kind == "overhead" and steps[-1].begin_s == 0.0:
        first = steps.pop()
        begin = min(trace.begins_s[first.rank], first.end_s)
        steps += [Step("overhead", first.rank, begin, first.end_s)] if begin < first.end_s else []
        steps += [Step("start", first.rank, 0.0, begin)] if begin > 0.0 else []
    return steps[::-1]


def _own_work(work: _ByLine, rank: int, begin_s: float, end_s: float) -> list[Step]:
    """Cut a rank's own time into computations and overheads, latest first."""
    own, begins_s, ends_s = work.rows(rank)
    first = np.searchsorted(ends_s, begin_s, side="right")
    last = np.searchsorted(begins_s, end_s, side="left")
    steps: list[Step] = []
    now = end_s
    for row in own[first:last][::-1]:
        begin, end = max(begin_s, float(work.begin_s[row])), min(now, float(work.end_s[row]))
        if end < now:
            steps.append(Step("overhead", rank, end, now))
        if begin < end:
            slowdown = 1.0 if work.slowdown is None else float(work.slowdown[row])
            steps.append(Step("computation", rank, begin, end, slowdown=slowdown))
        now = begin
    if begin_s < now:
        steps.append(Step("overhead", rank, begin_s, now))
    return steps
