"""The activity of ranks over the time of a recorded run: intervals, and their shares in a grid of cells.

A rank computes, waits, or is in its own part of calls. A wait ends with a message: until that message could
start, the rank waited for the other side; from then on for the message itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from labkit.trace.trace import Trace

__all__ = ["KINDS", "Activity", "activity"]

#: what a rank does, by number
KINDS = (
    "computing",
    "start-ups and calls",
    "message under way",
    "waiting for a sender",
    "waiting for a receiver",
)
COMPUTING, CALLS, MESSAGE, SENDER, RECEIVER = range(len(KINDS))


@dataclass(frozen=True)
class Activity:
    """Intervals, by rank and then by time; those of a rank follow each other without gap until it ends.

    Attributes
    ----------
    rank, kind, message : arrays of int
        Kind is a number of `KINDS`, message the row in `Trace.messages` of the one that a wait ended with,
        or -1.
    begin_s, end_s : arrays of float
        Seconds of simulated time.
    ranks : int
    makespan_s : float
    """

    rank: NDArray[np.int64]
    kind: NDArray[np.int64]
    message: NDArray[np.int64]
    begin_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    ranks: int
    makespan_s: float

    def __len__(self) -> int:
        return len(self.rank)

    def shares(self) -> NDArray[np.float64]:
        """Return the share of every kind in the time of all ranks, from 0 to the makespan."""
        spent = np.asarray(np.bincount(self.kind, self.end_s - self.begin_s, len(KINDS)), np.float64)
        return spent / (self.ranks * self.makespan_s) if self.makespan_s > 0 else spent

    def cells(self, groups: int, bins: int) -> NDArray[np.float64]:
        """Return the share of every kind in the time of neighbouring ranks, in equal parts of the run.

        Parameters
        ----------
        groups : int
            Ranks are cut into so many groups of equal size; the last may be smaller.
        bins : int
            Parts of the makespan.

        Returns
        -------
        array of float, shape (kinds, groups, bins)
            What is missing to 1 in the sum over the kinds is time after the ends of ranks.
        """
        size = -(-self.ranks // groups)
        group = self.rank // size
        step = self.makespan_s / bins if self.makespan_s > 0 else 1.0
        spent = np.array([
            _overlaps(group[of], self.begin_s[of], self.end_s[of], groups, bins, step)
            for of in (self.kind == kind for kind in range(len(KINDS)))
        ])  # fmt: skip
        members = np.clip(self.ranks - size * np.arange(groups), 0, size)
        out: NDArray[np.float64] = spent / (np.maximum(members, 1)[:, None] * step)
        return out


def activity(trace: Trace) -> Activity:
    """Find what every rank of a recorded run did when.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    Activity
    """
    waits, work = trace.waits, trace.computations
    message = waits["message"].to_numpy(np.int64)
    rank = waits["rank"].to_numpy(np.int64)
    begin, end = waits["begin_s"].to_numpy(np.float64), waits["end_s"].to_numpy(np.float64)
    is_known = message >= 0
    row = np.maximum(message, 0)
    start = np.where(is_known, _column(trace, "start_s", row), end)
    cut = np.clip(start, begin, end)
    side = np.where(is_known & (_column(trace, "source", row) == rank), RECEIVER, SENDER)
    none = np.full(len(work), -1, np.int64)
    parts = [
        (work["rank"].to_numpy(np.int64), none * 0 + COMPUTING, none,
         work["begin_s"].to_numpy(np.float64), work["end_s"].to_numpy(np.float64)),
        (rank, side, message, begin, cut),
        (rank, np.full(len(rank), MESSAGE), message, cut, end),
    ]  # fmt: skip
    ends = np.asarray(trace.ends_s, np.float64)
    columns: list[NDArray[Any]] = [np.concatenate(of) for of in zip(*parts, strict=True)]
    of_rank, kind, by, begin, end = _with_calls(columns, ends)
    return Activity(of_rank, kind, by, begin, end, len(ends), float(ends.max(initial=0.0)))


def _column(trace: Trace, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
    values: NDArray[Any] = trace.messages[name].to_numpy()
    return values[rows] if len(values) else np.zeros(len(rows))


def _with_calls(columns: list[NDArray[Any]], ends: NDArray[np.float64]) -> list[NDArray[Any]]:
    """Sort the intervals, leave out empty ones, and fill the gaps of every rank with its own calls."""
    rank, begin, end = columns[0], columns[3], columns[4]
    order = np.lexsort((end, begin, rank))
    order = order[end[order] > begin[order]]
    columns = [column[order] for column in columns]
    rank, begin, end = columns[0], columns[3], columns[4]
    ranks = np.arange(len(ends))
    first = np.searchsorted(rank, ranks)
    last = np.searchsorted(rank, ranks, side="right")
    # Before every interval: since the end of the one before, or since 0; after the last one: until the end.
    since = np.concatenate([[0.0], end[:-1]]) if len(end) else end
    since[first[first < last]] = 0.0
    closing = np.where(first < last, end[np.maximum(last - 1, 0)] if len(end) else 0.0, 0.0)
    gap_rank = np.concatenate([rank, ranks])
    gap_begin, gap_end = np.concatenate([since, closing]), np.concatenate([begin, ends])
    real = gap_end > gap_begin
    count = int(real.sum())
    gaps = [gap_rank[real], np.full(count, CALLS), np.full(count, -1), gap_begin[real], gap_end[real]]
    joined = [np.concatenate([a, b.astype(a.dtype)]) for a, b in zip(columns, gaps, strict=True)]
    order = np.lexsort((joined[3], joined[0]))
    return [column[order] for column in joined]


def _overlaps(
    group: NDArray[np.int64], begin: NDArray[np.float64], end: NDArray[np.float64],
    groups: int, bins: int, step: float,
) -> NDArray[np.float64]:  # fmt: skip
    """Sum the lengths of intervals by group and bin."""
    shape = (groups, bins + 1)
    low = np.clip((begin / step).astype(np.int64), 0, bins - 1)
    high = np.clip((end / step).astype(np.int64), 0, bins - 1)
    at, upto = group * (bins + 1) + low, group * (bins + 1) + high
    count = groups * (bins + 1)
    inside = low == high
    found = np.bincount(at, np.where(inside, end - begin, (low + 1) * step - begin), count)
    found += np.bincount(upto, np.where(inside, 0.0, end - high * step), count)
    whole = np.bincount(at + 1, np.where(inside, 0.0, step), count + 1)[:count]
    whole -= np.bincount(upto, np.where(inside, 0.0, step), count)
    table = (found.reshape(shape) + np.cumsum(whole.reshape(shape), axis=1))[:, :bins]
    return np.maximum(table, 0.0)
