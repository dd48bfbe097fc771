"""The activity of ranks over the time of a recorded run: intervals, and their shares in a grid of cells.

A rank computes, waits, or is in its own part of calls (`labkit.trace.states`). A wait ends with a message:
until that message could start, the rank waited for the other side; from then on for the message itself. So it
is with a collective that a real run has recorded as a whole. Where the waits of a run have been analyzed
(`labkit.Run.waits`), they have the names and the times that the analysis gives them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.waiting.kinds import KINDS, patterns_of
from labkit.trace.waiting.windows import calls_at

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import Trace

__all__ = [
    "CALLS",
    "COLLECTIVE",
    "MESSAGE",
    "STATES",
    "Activity",
    "activity",
    "state_named",
    "state_of_step",
    "waits_of",
]

#: one value for each row of a table, of any type
_Column = NDArray[Any]


# The states of a rank: one table, from which time lines, their legends and explanations take them.
#
# A wait state is the part of a wait before what it waits for could begin. Those of
# `labkit.trace.waiting.kinds` are found by the analysis of the run, and have its names here, too. Adding one
# is adding its entry: the last entry of the table that holds for a wait is the state of that part.


@dataclass(frozen=True)
class Waits:
    """The waits of a run: an entry a wait in every array.

    `rank`: Who waited.
    `begin_s`, `end_s`: From when to when.
    `start_s`: When what it waited for could begin: the transfer of a message, a collective when all were
        there.
    `message`, `call`: Row in `Trace.messages` of the message that ended it, in `Trace.calls` of the
        collective; else -1.
    `source`, `destination`, `tag`, `bytes`: Of the message; without one -1.
    `send_posted_s`, `recv_posted_s`: Of the message; without one NaN.
    """

    rank: NDArray[np.int64]
    begin_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    message: NDArray[np.int64]
    call: NDArray[np.int64]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    tag: NDArray[np.int64]
    bytes: NDArray[np.int64]
    send_posted_s: NDArray[np.float64]
    recv_posted_s: NDArray[np.float64]


@dataclass(frozen=True)
class State:
    """Something that a rank does for a time.

    `name`: In legends and readings of time lines.
    `color`, `hatch`: Of its bars: colors far apart in lightness too; the hatch is one of Bokeh's.
    `reading`: As the reason for a part of a critical path.
    `step`: The kind of the critical path's steps that are drawn so; "" for none.
    `holds`: Of a wait state: which of the waits (`Waits`) are in it, as an array of bool.
    """

    name: str
    color: str
    hatch: str
    reading: str
    step: str = ""
    holds: Callable[[Waits], NDArray[np.bool_]] | None = None

    @property
    def hatch_color(self) -> str:
        """The color of the hatch's lines: seen on the bar's own."""
        red, green, blue = (int(self.color[at : at + 2], 16) for at in (1, 3, 5))
        return "#707070" if 0.3 * red + 0.59 * green + 0.11 * blue > 190 else "white"


STATES = [
    State("computing", "#56B4E9", "blank", "computation", "computation"),
    State(
        "start-ups and calls", "#D55E00", "right_diagonal_line", "start-ups and calls of a rank", "overhead"
    ),
    State("message under way", "#8E4FA8", "dot", "messages under way", "transfer"),
    State("collective", "#009E73", "cross", "collectives", "collective"),
    State("not yet begun", "#F4F4F4", "blank", "a rank that began late", "start"),
    State(
        "late sender",
        "#E3E3E3",
        "horizontal_line",
        "the message had not been sent",
        "probe",
        holds=lambda waits: np.ones(len(waits.rank), bool),
    ),
    State(
        "late receiver",
        "#B9B9B9",
        "left_diagonal_line",
        "the receive had not begun",
        holds=lambda waits: waits.source == waits.rank,
    ),
    State(
        "wait at a collective",
        "#CDE7DC",
        "vertical_line",
        "not all ranks were in the collective",
        holds=lambda waits: waits.call >= 0,
    ),
]
COMPUTING, CALLS, MESSAGE, COLLECTIVE, BEGINNING = range(5)

#: waits are pale; neighbors in the table of wait states differ in tint and hatch
_PALE = ("#CDE7DC", "#F5E6B8", "#DCD3EC", "#CFE3F3", "#F6D5C6", "#E3E8B4", "#EBD0E0")
_LINES = (
    "vertical_line",
    "horizontal_line",
    "left_diagonal_line",
    "dot",
    "diagonal_cross",
    "cross",
    "right_diagonal_line",
    "ring",
    "blank",
)


def _named() -> list[int]:
    """Return the place in the table of each class of wait states; those that it lacks are added."""
    known = {state.name: place for place, state in enumerate(STATES)}
    for number, kind in enumerate(KINDS):
        if kind.name not in known:
            known[kind.name] = len(STATES)
            color, hatch = _PALE[number % len(_PALE)], _LINES[number % len(_LINES)]
            STATES.append(State(kind.name, color, hatch, kind.meaning))
    return [known[kind.name] for kind in KINDS]


#: where the classes of `labkit.trace.waiting.kinds.KINDS` are in the table
NAMED = _named()
#: entries from here on were added by others
OWN = len(STATES)


def state_of_step(kind: str) -> State:
    """Return the state as which a kind of steps of a critical path is drawn and named."""
    return next(state for state in STATES if state.step == kind)


def state_named(name: str) -> State:
    """Return the state as which a class of wait states is drawn."""
    return next(state for state in STATES if state.name == name)


#: names of waits by what ended them, where no analysis has named them
_UNNAMED = [place for place, state in enumerate(STATES[:OWN]) if state.holds is not None]


@dataclass(frozen=True)
class Activity:
    """Intervals, by rank and then by time; those of a rank follow each other without gap until it ends.

    `rank`, `kind`, `message`: Kind is a place in `labkit.trace.states.STATES`, message the row in
        `Trace.messages` of the one that a wait ended with; of a collective, or another call that waited, -2 -
        its row in `Trace.calls`; else -1.
    `begin_s`, `end_s`: Seconds of the run's time.
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
        """Return the share of every kind in the time of neighboring ranks, in equal parts of the run.

        `groups`: Ranks are cut into that many groups of equal size; the last may be smaller.
        `bins`: Parts of the makespan.
        Returns (array of float, shape (kinds, groups, bins)): What is missing to 1 in the sum over the kinds
            is time after the ends of ranks.
        """
        size = -(-self.ranks // groups)
        group = self.rank // size
        step = self.makespan_s / bins if self.makespan_s > 0 else 1.0
        spent = np.array(
            [
                _overlaps(group[of], self.begin_s[of], self.end_s[of], groups, bins, step)
                for of in (self.kind == kind for kind in range(len(STATES)))
            ]
        )
        members = np.clip(self.ranks - size * np.arange(groups), 0, size)
        out: NDArray[np.float64] = spent / (np.maximum(members, 1)[:, None] * step)
        return out


def activity(trace: Trace, named: pd.DataFrame | None = None) -> Activity:
    """Find what every rank of a recorded run did when.

    `named`: Its wait states, as in `labkit.trace.waiting.Waiting.waits`. Without them waits are distinguished
        by what ended them alone.
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
        (
            work["rank"].to_numpy(np.int64),
            none * 0 + COMPUTING,
            none,
            work["begin_s"].to_numpy(np.float64),
            work["end_s"].to_numpy(np.float64),
        ),
        (waits.rank, side, ended_by, waits.begin_s, cut),
        (waits.rank, moving, ended_by, cut, waits.end_s),
    ]
    if trace.begins_s is not None:
        before = np.asarray(trace.begins_s, np.float64)
        ranks = np.arange(len(before))
        parts.append((ranks, ranks * 0 + BEGINNING, ranks * 0 - 1, before * 0, before))
    ends = np.asarray(trace.ends_s, np.float64)
    columns: list[_Column] = [np.concatenate(of) for of in zip(*parts, strict=True)]
    columns = _with_calls(columns, ends)
    if named is not None:
        columns = _renamed(columns, trace, named)
    of_rank, kind, by, begin, end = columns
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
    whole = {
        name: _column(trace.messages, name, message, none)
        for name in ("source", "destination", "tag", "bytes")
    }
    posted = {
        name: _column(trace.messages, name, message, none * np.nan)
        for name in ("send_posted_s", "recv_posted_s")
    }
    return Waits(rank, begin, end, start, message, call, **whole, **posted)


def _column(table: pd.DataFrame, name: str, rows: NDArray[np.int64], without: _Column) -> _Column:
    """Return a table's values at rows; those of `without` where the row is below 0."""
    values: _Column = table[name].to_numpy()
    return np.where(rows >= 0, values[np.maximum(rows, 0)], without) if len(values) else without


def _with_calls(columns: list[_Column], ends: NDArray[np.float64]) -> list[_Column]:
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


def _renamed(columns: list[_Column], trace: Trace, named: pd.DataFrame) -> list[_Column]:
    """Cut the intervals where wait states begin and end, and give these their names."""
    rank, kind, by, begin, end = columns
    own_rank, own_begin, own_end = (named[name].to_numpy() for name in ("rank", "begin_s", "end_s"))
    cut_rank = np.concatenate([rank, own_rank, own_rank])
    cut_s = np.concatenate([begin, own_begin, own_end])
    order = np.lexsort((cut_s, cut_rank))
    # Behind each cut: which interval goes on, and which wait state, if any.
    of = np.cumsum(order < len(rank)) - 1
    step = np.where(order < len(rank), 0, np.where(order < len(rank) + len(own_rank), 1, -1))
    is_wait = np.cumsum(step) > 0
    last = np.maximum.accumulate(np.where(step > 0, order - len(rank), -1))
    low = cut_s[order]
    high = np.minimum(np.append(low[1:], np.inf), end[of])
    high = np.where(np.append(cut_rank[order][1:], -1) == cut_rank[order], high, end[of])
    kept = np.flatnonzero(high > low)
    of, is_wait, last = of[kept], is_wait[kept], last[kept]
    low, high = low[kept], high[kept]
    kind, by = kind[of], by[of]
    is_wait &= kind < OWN  # what others have added stays
    others = ~is_wait & np.isin(kind, _UNNAMED)  # the other side was there: the message's own time
    kind[others], by[others] = _own_time(trace, rank[of[others]], low[others], by[others])
    if is_wait.any():
        row, message, late = named["row"].to_numpy(), named["message"].to_numpy(), last[is_wait]
        kind[is_wait] = np.array(NAMED)[named["state"].cat.codes.to_numpy()[late]]
        by[is_wait] = np.where(message >= 0, message, np.where(row >= 0, -2 - row, -1))[late]
    return [rank[of], kind, by, low, high]


def _own_time(trace: Trace, rank: _Column, at_s: _Column, by: _Column) -> tuple[_Column, _Column]:
    """Name waits without a wait state: inside a collective its name, elsewhere a message."""
    kind = np.where(by < -1, COLLECTIVE, np.where(by >= 0, MESSAGE, CALLS))
    if trace.calls is None or not len(trace.calls):
        return kind, by
    calls = trace.calls
    row = calls_at(calls, rank, at_s)
    _, is_begun = patterns_of(calls["call"].to_numpy())
    inside = (row >= 0) & (calls["end_s"].to_numpy()[row] > at_s)
    inside &= (calls["joint"].to_numpy()[row] >= 0) & (is_begun[row] == 0)
    return np.where(inside, COLLECTIVE, kind), np.where(inside, -2 - row, by)


def _overlaps(
    group: NDArray[np.int64],
    begin: NDArray[np.float64],
    end: NDArray[np.float64],
    groups: int,
    bins: int,
    step: float,
) -> NDArray[np.float64]:
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
