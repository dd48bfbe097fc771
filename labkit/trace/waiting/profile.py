"""The profile of a run: each rank's time, visits and messages by call path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.counters import EVENTS, column_of, summary_frame
from labkit.trace.trace import NO_PHASE, PhaseClock
from labkit.trace.waiting.analysis import analyzed
from labkit.trace.waiting.kinds import is_begun
from labkit.trace.waiting.windows import calls_at

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import RecordedRun, Trace
    from labkit.trace.waiting.analysis import Waiting

__all__ = ["profile_and_waiting", "profile_of", "profiled"]

_PATH = ["rank", "phase", "call", "place"]
_SENT = ["messages", "bytes", "empty_messages", "collective_bytes", "empty_collectives"]
_SYNC = ["p2p_sync_s", "collective_sync_s"]


def profile_of(run: RecordedRun) -> pd.DataFrame:
    """Sum each rank's time up by call path.

    `run`: Recorded with ``trace=True``.
    Returns: By rank and path: rank, path, phase, call, place, visits (of computation: how often the phase, or
        the program, was entered), seconds (without wait states), waiting_s, critical_s (on the critical
        path), messages and bytes that were sent there, empty_messages (of them without payload: they only
        synchronize), collective_bytes (of a real run, what was given to collectives: which messages become of
        it is not seen), empty_collectives (calls of collectives to which no rank gives anything), p2p_sync_s
        and collective_sync_s (time in calls whose messages, or whose collectives, have no payload, wait
        states included) and, of a run with ``count=True``, memory_bytes (the most that the rank's NumPy
        arrays held in the innermost phase, wherever it is entered). Of a real run with ``counters=`` a column
        for each: `labkit.trace.counters`.
    Raises DataError: The run was not recorded.
    """
    return profile_and_waiting(run)[0]


def profile_and_waiting(run: RecordedRun) -> tuple[pd.DataFrame, Waiting]:
    """Return what `profile_of` does, and the wait states that it is made of."""
    table, waiting, _ = profiled(run)
    return table, waiting


def profiled(run: RecordedRun) -> tuple[pd.DataFrame, Waiting, NDArray[np.int32]]:
    """Return these two, and the call path of each row of `Trace.calls`."""
    import pandas as pd

    waiting, call_path, sent_by = analyzed(run)
    table = waiting.totals.copy()
    table.insert(4, "place", waiting.paths["place"].to_numpy()[table["path"].to_numpy()])
    place = table["rank"].to_numpy() * len(waiting.paths) + table["path"].to_numpy()
    columns = _columns(run, waiting, call_path, sent_by)
    for name in (*_SENT, *_SYNC):
        rows, amounts = columns[name]
        sums = pd.Series(np.asarray(amounts, np.float64)).groupby(rows).sum()
        table[name] = sums.reindex(place, fill_value=0).to_numpy(np.float64)
    table[_SENT] = table[_SENT].astype(np.int64)
    _add_measured(table, run, waiting)
    return table, waiting, call_path


def _columns(
    run: RecordedRun, waiting: Waiting, call_path: NDArray[np.int32], sent_by: NDArray[np.int64]
) -> dict[str, tuple[Any, Any]]:
    """Return what is summed up: for each column, the places (rank and path as one number) and amounts."""
    paths = len(waiting.paths)
    nothing = np.empty(0, np.int64), np.empty(0)
    messages, calls = run.trace.messages, run.trace.calls
    source, sizes = messages["source"].to_numpy(np.int64), messages["bytes"].to_numpy(np.int64)
    if (
        "send_operation" in messages and run.trace.clocks is None
    ):  # what it sent belongs to the call that began it
        beside = messages["send_operation"].to_numpy(np.int64)
        operations, rows = run.trace.operations, np.flatnonzero(beside >= 0)
        sent_by[rows] = _begun(calls, operations)[beside[rows]]
    known = sent_by >= 0
    at = source[known] * paths + call_path[sent_by[known]]
    if calls is None:  # then its sender's phase is all that is known
        known = np.ones(len(source), bool)
        at = source * paths + _of_phases(run, waiting)
    columns = {
        "messages": (at, np.ones(len(at))),
        "bytes": (at, sizes[known]),
        "empty_messages": (at, sizes[known] == 0),
        "collective_bytes": nothing,
        "empty_collectives": nothing,
        **dict.fromkeys(_SYNC, nothing),
    }
    if calls is not None and len(calls):
        joint = calls["joint"].to_numpy(np.int64)
        given = np.bincount(joint[joint >= 0], calls["bytes"].to_numpy(np.int64)[joint >= 0])
        empty = np.flatnonzero((joint >= 0) & (given[joint] == 0 if len(given) else False))
        of_call = calls["rank"].to_numpy(np.int64)[empty] * paths + call_path[empty]
        columns["empty_collectives"] = (of_call, np.ones(len(of_call)))
        lasted_s = (calls["end_s"] - calls["begin_s"]).to_numpy(np.float64)
        columns["collective_sync_s"] = (of_call, lasted_s[empty])
        alone = np.flatnonzero(_synchronizes(run.trace, sent_by) & (joint < 0))
        of_call = calls["rank"].to_numpy(np.int64)[alone] * paths + call_path[alone]
        columns["p2p_sync_s"] = (of_call, lasted_s[alone])
    if waiting.is_real and calls is not None and len(calls):
        joins = calls["joint"].to_numpy() >= 0
        of_call = calls["rank"].to_numpy(np.int64)[joins] * paths + call_path[joins]
        columns["collective_bytes"] = (of_call, calls["bytes"].to_numpy(np.int64)[joins])
    return columns


def _add_measured(table: pd.DataFrame, run: RecordedRun, waiting: Waiting) -> None:
    """Add the columns of memory and of the host's counters, where there are some."""
    import pandas as pd

    if run.counts is not None and "memory_bytes" in run.counts:
        held = run.counts.set_index(["rank", "phase"])["memory_bytes"]
        names = waiting.paths["name"].replace(NO_PHASE, "").to_numpy()[table["path"].to_numpy()]
        table["memory_bytes"] = held.reindex(pd.MultiIndex.from_arrays([table["rank"], names])).to_numpy()
    if run.trace.counted:
        summed = summary_frame(run.trace.counted)
        where = pd.MultiIndex.from_frame(table[_PATH].astype(object))
        summed = summed.set_index(_PATH)
        for name in map(column_of, EVENTS):
            if name in summed:
                table[name] = summed[name].reindex(where, fill_value=0).to_numpy()


def _synchronizes(trace: Trace, sent_by: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which calls post, or wait for, messages of the program's that all have no payload."""
    calls: Any = trace.calls
    messages, waits = trace.messages, trace.waits
    received_by = calls_at(
        calls, messages["destination"].to_numpy(np.int64), messages["recv_posted_s"].to_numpy(np.float64)
    )
    of_wait = waits["message"].to_numpy(np.int64)
    waited_by = calls_at(calls, waits["rank"].to_numpy(np.int64), waits["begin_s"].to_numpy(np.float64))
    every = np.arange(len(messages))
    message = np.concatenate([every, every, np.where(of_wait >= 0, of_wait, -1)])
    row = np.concatenate([sent_by, received_by, waited_by])
    known = (row >= 0) & (message >= 0)
    message, row = message[known], row[known]
    own = trace.is_own[message]
    size = messages["bytes"].to_numpy(np.int64)[message]
    empty = np.bincount(row[own & (size == 0)], minlength=len(calls))
    loaded = np.bincount(row[size > 0], minlength=len(calls))
    found: NDArray[np.bool_] = (empty > 0) & (loaded == 0)
    return found


def _of_phases(run: RecordedRun, waiting: Waiting) -> NDArray[np.int64]:
    """Return for each message the first call path in the innermost phase of its sender then."""
    messages = run.trace.messages
    posted = messages["send_posted_s"].to_numpy(np.float64)
    names = PhaseClock(run.phases).all_at(messages["source"].to_numpy(np.int64), posted)
    first: dict[str, int] = {}
    for row, name in enumerate(waiting.paths["name"].tolist()):
        first.setdefault(str(name), row)
    return np.array([first.get(str(name), 0) for name in names], np.int64)


def _begun(calls: pd.DataFrame, operations: pd.DataFrame) -> NDArray[np.int64]:
    """Return the call that began each operation: of two that meet at that instant the one that can."""
    when_s, rank = operations["begin_s"].to_numpy(np.float64), operations["rank"].to_numpy()
    names = calls["call"].astype(str)
    begins = (names.str.startswith("Start") | names.map(is_begun)).to_numpy(bool)
    row = calls_at(calls, rank, when_s)
    before = np.maximum(row - 1, 0)
    is_before = (row > 0) & ~begins[np.maximum(row, 0)] & begins[before]
    is_before &= (calls["rank"].to_numpy()[before] == rank) & (calls["end_s"].to_numpy()[before] >= when_s)
    return np.where(is_before, before, row)
