"""A trace as the columns that the analysis of wait states reads: of a simulated and of a real run alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.phases import NOT_SAID, phase_numbers
from labkit.trace.waiting.call_kinds import CallKinds
from labkit.trace.waiting.kinds import NEIGHBORS, patterns_of
from labkit.trace.waiting.polls import polled_operations

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import Trace

__all__ = ["given_columns", "wait_columns"]

Columns = dict[str, NDArray[Any]]
_GIVEN: dict[str, type[np.generic]] = {
    "rank": np.int32, "begin_s": np.float64, "until_s": np.float64, "cause": np.int32, "call": np.int32,
    "cause_call": np.int32, "state": np.uint8,
}  # fmt: skip


def wait_columns(
    trace: Trace, phases: pd.DataFrame, kinds: CallKinds
) -> tuple[dict[str, Columns], list[str]]:
    """Return what ``_kernels.analyse_waits`` takes, and the names of the phases by number.

    Parameters
    ----------
    trace : Trace
    phases : pandas.DataFrame
        `Run.phases`.
    kinds : CallKinds
        Of the trace.
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
        "calls": call_columns, "messages": messages, "phases": spans,
        "blocked": _with_polls(_blocked(trace, call_columns), trace, kinds, call_columns),
    }  # fmt: skip
    return tables, [str(name) for name in names]


def given_columns(given: pd.DataFrame | None) -> Columns:
    """Return waits that a recorder found itself as columns.

    Parameters
    ----------
    given : pandas.DataFrame or None
        rank, begin_s, until_s, cause (rank, or -1), call and cause_call (rows of `Trace.calls`, or -1), state
        (`labkit.trace.waiting.kinds.kind_number`).
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
    """Add for which messages ranks waited in what they had begun with their neighbours."""
    operation, message = waits["operation"].to_numpy(np.int64), waits["message"].to_numpy(np.int64)
    own = np.where(operation >= 0, begun[np.maximum(operation, 0)] if len(begun) else -1, -1)
    rows = np.flatnonzero((own >= 0) & (message >= 0))
    rows = rows[calls["pattern"][own[rows]] == NEIGHBORS]
    if not len(rows):
        return columns
    of_wait = {
        "rank": waits["rank"], "message": message, "begin_s": waits["begin_s"], "end_s": waits["end_s"],
        "begun": own,
    }  # fmt: skip
    return {
        name: np.concatenate([column, np.asarray(of_wait[name])[rows].astype(column.dtype)])
        if name in of_wait
        else column
        for name, column in columns.items()
    }


def _with_polls(columns: Columns, trace: Trace, kinds: CallKinds, calls: Columns) -> Columns:
    """Add the tests in which a rank waited for a collective that it had begun."""
    if trace.beside is None:
        return columns
    rows, operations = polled_operations(trace.calls, kinds, trace.beside.operations)
    begun = _beginnings(trace.beside.operations, calls)[operations]
    rows, begun = rows[begun >= 0], begun[begun >= 0]
    end = calls["end_s"][rows]
    of_poll = {"rank": calls["rank"][rows], "begin_s": calls["begin_s"][rows], "end_s": end, "begun": begun,
               "ready_s": end, "origin": calls["rank"][rows], "message": np.full(len(rows), -1)}  # fmt: skip
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


def _still_in(calls: pd.DataFrame | None, names: Any) -> NDArray[np.int32]:
    """Return the innermost phase of each call that takes no time, as a name's number; of others `NOT_SAID`.

    Such a call may be the last of a phase or the first of the next: the time alone does not report it.
    """
    found = np.full(0 if calls is None else len(calls), NOT_SAID, np.int32)
    if calls is not None:
        rows = np.flatnonzero(calls["end_s"].to_numpy() <= calls["begin_s"].to_numpy())
        found[rows] = phase_numbers(calls.iloc[rows], names)
    return found


def _column(table: Any, name: str, kind: type[np.generic]) -> NDArray[Any]:
    return np.ascontiguousarray(table[name].to_numpy(kind))
