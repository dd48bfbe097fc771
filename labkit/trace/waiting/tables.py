"""A trace as the columns that the analysis of wait states reads: of a simulated and of a real run alike."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from labkit.comm.surface import METHODS, REQUESTS
from labkit.trace.trace import NOT_SAID, phase_numbers
from labkit.trace.waiting.kinds import NEIGHBORS, CallKinds, kind_number, patterns_of
from labkit.trace.waiting.windows import calls_at

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import Trace

__all__ = ["given_columns", "poll_waits", "wait_columns"]

Columns = dict[str, NDArray[Any]]

_GIVEN: dict[str, type[np.generic]] = {
    "rank": np.int32,
    "begin_s": np.float64,
    "until_s": np.float64,
    "cause": np.int32,
    "call": np.int32,
    "cause_call": np.int32,
    "state": np.uint8,
}


def wait_columns(
    trace: Trace, phases: pd.DataFrame, kinds: CallKinds
) -> tuple[dict[str, Columns], list[str]]:
    """Return what ``_kernels.analyze_waits`` takes, and the names of the phases by number.

    `phases`: `Run.phases`.
    `kinds`: Of the trace.
    """
    import pandas as pd

    calls, n = trace.calls, len(kinds.numbers)
    if calls is None or not n:
        none = np.empty(0, np.int32)
        call_columns: Columns = {"rank": none, "joint": none, "root": none, "position": none, "what": none}
        call_columns |= dict.fromkeys(("begin_s", "end_s"), np.empty(0))
        call_columns |= dict.fromkeys(("pattern", "is_begun"), np.empty(0, np.uint8))
    else:
        call_columns = {
            name: _column(calls, name, np.int32) for name in ("rank", "joint", "root", "position")
        }
        call_columns |= {name: _column(calls, name, np.float64) for name in ("begin_s", "end_s")}
        pattern, begun = patterns_of(kinds.names)
        joins = call_columns["joint"] >= 0
        call_columns["pattern"] = np.where(joins, pattern[kinds.numbers], 0).astype(np.uint8)
        call_columns["is_begun"] = np.where(joins, begun[kinds.numbers], 0).astype(np.uint8)
        call_columns["what"] = kinds.numbers
    messages = {
        name: _column(trace.messages, name, np.int32) for name in ("source", "destination", "context")
    }
    messages |= {
        name: _column(trace.messages, name, np.float64) for name in ("send_posted_s", "recv_posted_s")
    }
    found: tuple[Any, Any] = (np.empty(0, np.int64), [])
    number, names = pd.factorize(phases["phase"]) if len(phases) else found
    call_columns["phase"] = _still_in(calls, names)
    spans = {name: _column(phases, name, np.float64) for name in ("begin_s", "end_s")}
    spans |= {"rank": _column(phases, "rank", np.int32), "name": number.astype(np.int32)}
    spans["depth"] = _column(phases, "depth", np.int32) if "depth" in phases else np.empty(0, np.int32)
    tables = {
        "calls": call_columns,
        "messages": messages,
        "phases": spans,
        "blocked": _with_polls(_blocked(trace, call_columns), trace, kinds, call_columns),
    }
    return tables, [str(name) for name in names]


def given_columns(given: pd.DataFrame | None) -> Columns:
    """Return waits that a recorder found itself as columns.

    `given`: rank, begin_s, until_s, cause (rank, or -1), call and cause_call (rows of `Trace.calls`, or -1),
        state (`labkit.trace.waiting.kinds.kind_number`).
    """
    if given is None:
        return {name: np.empty(0, kind) for name, kind in _GIVEN.items()}
    return {name: _column(given, name, kind) for name, kind in _GIVEN.items()}


def _blocked(trace: Trace, calls: Columns) -> Columns:
    """Return the recorded waits; of those for a collective that was begun, the call that began it."""
    waits = trace.waits if trace.beside is None or trace.clocks is not None else trace.beside.waits
    if trace.clocks is None and trace.beside is not None:
        waits = waits[waits["operation"] < 0]
    columns = {"rank": _column(waits, "rank", np.int32), "message": _column(waits, "message", np.int32)}
    columns |= {name: _column(waits, name, np.float64) for name in ("begin_s", "end_s")}
    none = np.full(len(waits), -1, np.int32)
    columns |= {"begun": none, "ready_s": np.empty(0), "origin": np.empty(0, np.int32)}
    if trace.clocks is not None:  # a real run
        columns["ready_s"] = _column(waits, "ready_s", np.float64)
        columns["origin"] = _column(waits, "origin", np.int32)
        row = _column(waits, "call", np.int32)
        if len(calls["is_begun"]):
            is_begun = (row >= 0) & (calls["is_begun"][np.maximum(row, 0)] > 0)
            columns["begun"] = np.where(is_begun, row, -1).astype(np.int32)
    elif trace.beside is not None:
        begun = _beginnings(trace.beside.operations, calls)
        for_operation = columns["message"] < -1
        columns["begun"][for_operation] = begun[-2 - columns["message"][for_operation]]
        columns["message"] = np.maximum(columns["message"], -1)
        unknown = for_operation & (
            columns["begun"] < 0
        )  # of persistent ones: their calls are no collective's
        columns = {name: column[~unknown] if len(column) else column for name, column in columns.items()}
        columns = _with_neighbors(columns, trace.waits, begun, calls)
    return columns


def _with_neighbors(
    columns: Columns, waits: pd.DataFrame, begun: NDArray[np.int32], calls: Columns
) -> Columns:
    """Add for which messages ranks waited in what they had begun with their neighbors."""
    operation, message = waits["operation"].to_numpy(np.int64), waits["message"].to_numpy(np.int64)
    own = np.where(operation >= 0, begun[np.maximum(operation, 0)] if len(begun) else -1, -1)
    rows = np.flatnonzero((own >= 0) & (message >= 0))
    rows = rows[calls["pattern"][own[rows]] == NEIGHBORS]
    if not len(rows):
        return columns
    of_wait = {
        "rank": waits["rank"],
        "message": message,
        "begin_s": waits["begin_s"],
        "end_s": waits["end_s"],
        "begun": own,
    }
    return {
        name: np.concatenate([column, np.asarray(of_wait[name])[rows].astype(column.dtype)])
        if name in of_wait
        else column
        for name, column in columns.items()
    }


# Waits of ranks that ask again and again: tests and probes that found nothing, and what they asked for.
#
# A rank that polls is never blocked, so that no wait is recorded of it. Polls that follow each other closely
# are one call in `Trace.calls`. What such a call lasted until the other side's call began is a wait state,
# as
# of the blocking call in its place. What is polled for is not recorded: it is taken to be what is over next.

_LOOKS = ("one", "all", "any", "some")

_TESTS = frozenset(row.name for row in REQUESTS if row.form == "nonblocking" and row.kind in _LOOKS)

_PROBES = frozenset(row.name for row in METHODS if row.form == "nonblocking" and row.kind == "probe")

_LATE_SENDER, _LATE_RECEIVER = kind_number("late sender"), kind_number("late receiver")

Array = NDArray[np.float64]

_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


def poll_waits(trace: Trace, kinds: CallKinds) -> Columns:
    """Find for which messages ranks waited in their tests and probes.

    `kinds`: Of its calls.
    Returns: The columns of `labkit.trace.waiting.tables.given_columns`.
    """
    names = ("rank", "begin_s", "until_s", "cause", "call", "cause_call", "state")
    found: Columns = {name: np.empty(0) for name in names}
    calls, messages = trace.calls, trace.messages
    if calls is None or not len(calls) or not len(messages):
        return found
    begin, end, owner = (calls[name].to_numpy() for name in ("begin_s", "end_s", "rank"))
    lasting = end > begin
    tests, probes = (np.flatnonzero(kinds.are(names) & lasting) for names in (_TESTS, _PROBES))
    if not len(tests) and not len(probes):
        return found
    source, destination = (messages[name].to_numpy(np.int64) for name in ("source", "destination"))
    posted, taken, over = (
        messages[name].to_numpy(np.float64) for name in ("send_posted_s", "recv_posted_s", "end_s")
    )
    own = (source != destination) & trace.is_own  # nobody asks for the messages inside a collective
    polls = owner[tests], begin[tests]
    to_it = _next(polls, destination[own], taken[own], over[own], np.flatnonzero(own))
    from_it = _next(polls, source[own], posted[own], over[own], np.flatnonzero(own))
    always = np.full(int(own.sum()), -np.inf)
    coming = _next(
        (owner[probes], begin[probes]), destination[own], always, posted[own], np.flatnonzero(own), taken[own]
    )
    rows, message = np.append(tests, probes), np.append(np.where(to_it >= 0, to_it, from_it), coming)
    is_receiver = np.append(to_it >= 0, coming >= 0)
    known = message >= 0
    rows, message, is_receiver = rows[known], message[known], is_receiver[known]
    cause = np.where(is_receiver, source[message], destination[message])
    when = np.where(is_receiver, posted[message], taken[message])
    there = calls_at(calls, cause, when)
    until = np.minimum(end[rows], np.where(there >= 0, begin[there], when))
    state = np.where(is_receiver, _LATE_SENDER, _LATE_RECEIVER)
    columns = (owner[rows], begin[rows], until, cause, rows, there, state)
    return {name: column[until > begin[rows]] for name, column in zip(names, columns, strict=True)}


def polled_operations(
    calls: Any, kinds: CallKinds, operations: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find which nonblocking collectives ranks tested for: rows of `Trace.calls` and of `Trace.operations`.

    A row for every test that began while the collective was under way.
    """
    none = np.empty(0, np.int64)
    if calls is None or not len(calls) or not len(operations):
        return none, none
    begin, end, owner = (calls[name].to_numpy() for name in ("begin_s", "end_s", "rank"))
    tests = np.flatnonzero(kinds.are(_TESTS) & (end > begin))
    since, over = (operations[name].to_numpy(np.float64) for name in ("begin_s", "end_s"))
    rank, number = operations["rank"].to_numpy(np.int64), np.arange(len(operations))
    tested = _next((owner[tests], begin[tests]), rank, since, over, number)
    known = tested >= 0
    return tests[known], tested[known]


def _next(
    polls: tuple[NDArray[np.int64], Array],
    rank: NDArray[np.int64],
    enters: Array,
    key: Array,
    name: NDArray[np.int64],
    leaves: Array | None = None,
) -> NDArray[np.int64]:
    """Return for each poll what is over next of all that its rank has open then; -1: nothing.

    `polls`: Their ranks, in ascending order, and times, ascending for each rank.
    `rank`, `enters`, `key`, `name`: Of what ranks have: whose it is, from when on it is open, when it is
        over, and what it is called here.
    `leaves`: When it is no longer asked for, if that may be before it is over.
    """
    found = np.full(len(polls[0]), -1)
    order = np.lexsort((enters, rank))
    ranks = np.unique(polls[0])
    borders = [np.searchsorted(column, ranks, side) for column in (polls[0], rank[order]) for side in _SIDES]
    for first, last, low, high in zip(*(border.tolist() for border in borders), strict=True):
        outside, is_open = order[low:high][::-1].tolist(), list[tuple[float, int]]()
        for poll in range(first, last):
            when = polls[1][poll]
            while outside and enters[outside[-1]] <= when:
                row = outside.pop()
                heappush(is_open, (key[row], row))
            while is_open and (
                is_open[0][0] <= when or (leaves is not None and leaves[is_open[0][1]] < when)
            ):
                heappop(is_open)
            if is_open:
                found[poll] = name[is_open[0][1]]
    return found


def _with_polls(columns: Columns, trace: Trace, kinds: CallKinds, calls: Columns) -> Columns:
    """Add the tests in which a rank waited for a collective that it had begun."""
    if trace.beside is None:
        return columns
    rows, operations = polled_operations(trace.calls, kinds, trace.beside.operations)
    begun = _beginnings(trace.beside.operations, calls)[operations]
    rows, begun = rows[begun >= 0], begun[begun >= 0]
    end = calls["end_s"][rows]
    of_poll = {
        "rank": calls["rank"][rows],
        "begin_s": calls["begin_s"][rows],
        "end_s": end,
        "begun": begun,
        "ready_s": end,
        "origin": calls["rank"][rows],
        "message": np.full(len(rows), -1),
    }
    return {
        name: np.concatenate([column, of_poll[name].astype(column.dtype)])
        if len(column) or trace.clocks is not None or name not in ("ready_s", "origin")
        else column
        for name, column in columns.items()
    }


def _beginnings(operations: pd.DataFrame, calls: Columns) -> NDArray[np.int32]:
    """Return the call that began each nonblocking collective; -1 where none is noted."""
    found = np.full(len(operations), -1, np.int32)
    rows = np.flatnonzero(calls["is_begun"] > 0)
    of_call, of_operation = calls["rank"][rows], operations["rank"].to_numpy()
    begin_s = operations["begin_s"].to_numpy()
    for rank in np.unique(of_operation):
        own, mine = rows[of_call == rank], np.flatnonzero(of_operation == rank)
        if not len(own):
            continue
        place = np.searchsorted(calls["begin_s"][own], begin_s[mine], side="right") - 1
        row = own[np.maximum(place, 0)]
        fits = (place >= 0) & (calls["end_s"][row] >= begin_s[mine])
        found[mine[fits]] = row[fits]
    return found


def _still_in(calls: pd.DataFrame | None, names: object) -> NDArray[np.int32]:
    """Return the innermost phase of each call that takes no time, as a name's number; of others `NOT_SAID`.

    Such a call may be the last of a phase or the first of the next: the time alone does not report it.
    """
    found = np.full(0 if calls is None else len(calls), NOT_SAID, np.int32)
    if calls is not None:
        rows = np.flatnonzero(calls["end_s"].to_numpy() <= calls["begin_s"].to_numpy())
        found[rows] = phase_numbers(calls.iloc[rows], names)
    return found


def _column(table: pd.DataFrame, name: str, kind: type[np.generic]) -> NDArray[Any]:
    return np.ascontiguousarray(table[name].to_numpy(kind))
