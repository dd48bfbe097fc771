"""The activity of ranks over the time of a recorded run: intervals, and their shares in a grid of cells.

A rank computes, waits, or is in its own part of calls (`labkit.trace.states`). A wait ends with a message:
until that message could start, the rank waited for the other side; from then on for the message itself. So it
is with a collective that a real run has recorded as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.states import BEGINNING, CALLS, COLLECTIVE, COMPUTING, MESSAGE, STATES, Waits

if TYPE_CHECKING:
    from labkit.trace.trace import Trace

__all__ = ["Activity", "activity", "waits_of"]


@dataclass(frozen=True)
class Activity:
    """Intervals, by rank and then by time; those of a rank follow each other without gap until it ends.

    Attributes
    ----------
    rank, kind, message : arrays of int
        Kind is a place in `labkit.trace.states.STATES`, message the row in `Trace.messages` of the one that a
        wait ended with; of a collective -2 - its row in `Trace.calls`; else -1.
    begin_s, end_s : arrays of float
        Seconds of the run's time.
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
        spent = np.asarray(np.bincount(self.kind, self.end_s - self.begin_s, len(STATES)), np.float64)
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
            for of in (self.kind == kind for kind in range(len(STATES)))
        ])  # fmt: skip
        members = np.clip(self.ranks - size * np.arange(groups), 0, size)
        out: NDArray[np.float64] = spent / (np.maximum(members, 1)[:, None] * step)
        return out


def activity(trace: Trace) -> Activity:
    """Find what every rank of a recorded run did when.

    Parameters
    ----------
    trace : Trace
    """
    waits, work = waits_of(trace), trace.computations
    cut = np.clip(waits.start_s, waits.begin_s, waits.end_s)
    side = np.full(len(waits.rank), -1)
    for number, state in enumerate(STATES):
        if state.holds is not None:
            side[state.holds(waits)] = number
    moving = np.where(waits.call >= 0, COLLECTIVE, MESSAGE)
    ended_by = np.where(waits.call >= 0, -2 - waits.call, waits.message)
    none = np.full(len(work), -1, np.int64)
    parts = [
        (work["rank"].to_numpy(np.int64), none * 0 + COMPUTING, none,
         work["begin_s"].to_numpy(np.float64), work["end_s"].to_numpy(np.float64)),
        (waits.rank, side, ended_by, waits.begin_s, cut),
        (waits.rank, moving, ended_by, cut, waits.end_s),
    ]  # fmt: skip
    if trace.begins_s is not None:
        before = np.asarray(trace.begins_s, np.float64)
        ranks = np.arange(len(before))
        parts.append((ranks, ranks * 0 + BEGINNING, ranks * 0 - 1, before * 0, before))
    ends = np.asarray(trace.ends_s, np.float64)
    columns: list[NDArray[Any]] = [np.concatenate(of) for of in zip(*parts, strict=True)]
    of_rank, kind, by, begin, end = _with_calls(columns, ends)
    return Activity(of_rank, kind, by, begin, end, len(ends), float(ends.max(initial=0.0)))


def waits_of(trace: Trace) -> Waits:
    """Return the waits of a trace with what each waited for."""
    table = trace.waits
    rank, message = (table[name].to_numpy(np.int64) for name in ("rank", "message"))
    begin, end = (table[name].to_numpy(np.float64) for name in ("begin_s", "end_s"))
    call = table["call"].to_numpy(np.int64) if "call" in table else np.full(len(rank), -1)
    start = _column(trace.messages, "start_s", message, end)
    if "ready_s" in table:
        start = table["ready_s"].to_numpy(np.float64)
    none = np.full(len(rank), -1)
    whole = {name: _column(trace.messages, name, message, none)
             for name in ("source", "destination", "tag", "bytes")}  # fmt: skip
    posted = {name: _column(trace.messages, name, message, none * np.nan)
              for name in ("send_posted_s", "recv_posted_s")}  # fmt: skip
    return Waits(rank, begin, end, start, message, call, **whole, **posted)


def _column(table: Any, name: str, rows: NDArray[np.int64], without: NDArray[Any]) -> NDArray[Any]:
    """Return a table's values at rows; those of `without` where the row is below 0."""
    values: NDArray[Any] = table[name].to_numpy()
    return np.where(rows >= 0, values[np.maximum(rows, 0)], without) if len(values) else without


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
