"""The critical path of a recorded run: the chain of computations and transfers that made it so long.

It is walked backwards from the rank that ended last. On a rank, everything since its last wait was its own
work; the wait was ended by a message; that message could start when the later of its two sides was posted,
and there the path goes on. The steps follow each other without a gap from 0 to the makespan, so their lengths
add up to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.recording import Trace

__all__ = ["Step", "critical_path"]

Kind = Literal["computation", "overhead", "transfer", "probe"]


@dataclass(frozen=True)
class Step:
    """One step of a critical path.

    Attributes
    ----------
    kind : str
        ``computation`` (charged), ``overhead`` (a rank's own time in calls: os, ois, or, Wtime, Test),
        ``transfer`` (of a message), ``probe`` (a wait for a message that nobody had sent).
    rank : int
        Where: of a transfer, the rank that waited for it.
    begin_s, end_s : float
        Seconds of simulated time.
    message : int
        Row in `Trace.messages`; -1 when it is no transfer.
    """

    kind: Kind
    rank: int
    begin_s: float
    end_s: float
    message: int = -1

    @property
    def seconds(self) -> float:
        """Length of the step."""
        return self.end_s - self.begin_s


class _ByRank:
    """Rows of a table, by rank, in the order in which they were recorded."""

    def __init__(self, table: pd.DataFrame, ranks: int) -> None:
        owner = table["rank"].to_numpy()
        self.order: NDArray[np.int64] = np.argsort(owner, kind="stable")
        self.first = np.searchsorted(owner[self.order], np.arange(ranks + 1))
        self.begin_s = table["begin_s"].to_numpy()
        self.end_s = table["end_s"].to_numpy()

    def rows(self, rank: int) -> NDArray[np.int64]:
        return self.order[self.first[rank] : self.first[rank + 1]]


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
    ranks = len(trace.ends_s)
    waits, work = _ByRank(trace.waits, ranks), _ByRank(trace.computations, ranks)
    ended_by = trace.waits["message"].to_numpy()
    source, destination = (trace.messages[end].to_numpy() for end in ("source", "destination"))
    sent, start = (trace.messages[when].to_numpy() for when in ("send_posted_s", "start_s"))

    rank = int(np.argmax(trace.ends_s))
    now = float(trace.ends_s[rank])
    before = len(ended_by)  # waits are recorded in order: an earlier one has a smaller row
    steps: list[Step] = []
    while now > 0.0:
        own = waits.rows(rank)
        own = own[: min(np.searchsorted(waits.end_s[own], now, side="right"), np.searchsorted(own, before))]
        resumed = float(waits.end_s[own[-1]]) if own.size else 0.0
        steps += _own_work(work, rank, resumed, now)
        if not own.size:
            break
        before = int(own[-1])
        message = int(ended_by[before])
        if message < 0:
            steps.append(Step("probe", rank, float(waits.begin_s[before]), resumed))
            now = float(waits.begin_s[before])
            continue
        now = float(start[message])
        steps.append(Step("transfer", rank, now, resumed, message))
        rank = int(source[message] if sent[message] >= now else destination[message])
    return steps[::-1]


def _own_work(work: _ByRank, rank: int, begin_s: float, end_s: float) -> list[Step]:
    """Cut a rank's own time into computations and overheads, latest first."""
    own = work.rows(rank)
    first = np.searchsorted(work.end_s[own], begin_s, side="right")
    last = np.searchsorted(work.begin_s[own], end_s, side="left")
    steps: list[Step] = []
    now = end_s
    for row in own[first:last][::-1]:
        begin, end = max(begin_s, float(work.begin_s[row])), min(now, float(work.end_s[row]))
        if end < now:
            steps.append(Step("overhead", rank, end, now))
        if begin < end:
            steps.append(Step("computation", rank, begin, end))
        now = begin
    if begin_s < now:
        steps.append(Step("overhead", rank, begin_s, now))
    return steps
