"""The profile of a run: each rank's time, visits and messages by call path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labkit.trace.counters import EVENTS, column_of
from labkit.trace.phases import NO_PHASE, PhaseClock
from labkit.trace.summary import summary_frame
from labkit.trace.waiting.analysis import analysed
from labkit.trace.waiting.kinds import is_begun
from labkit.trace.waiting.windows import calls_at

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.recorded_run import RecordedRun
    from labkit.trace.waiting.analysis import Waiting

__all__ = ["profile_and_waiting", "profile_of", "profiled"]

_PATH = ["rank", "phase", "call", "place"]
_SENT = ["messages", "bytes", "empty_messages", "collective_bytes", "empty_collectives"]


def profile_of(run: RecordedRun) -> pd.DataFrame:
    """Sum each rank's time up by call path.

    Parameters
    ----------
    run : Run
        Recorded with ``trace=True``.

    Returns
    -------
    pandas.DataFrame
        By rank and path: rank, path, phase, call, place, visits (of computation: how often the phase, or the
        program, was entered), seconds (without wait states), waiting_s, critical_s (on the critical path),
        messages and bytes that were sent there, empty_messages (of them
        without payload: they only synchronise), collective_bytes (of a real run, what was given to
        collectives: which messages become of it is not seen), empty_collectives (calls of collectives to
        which no rank gives anything) and, of a run with ``count=True``, memory_bytes (the most that the
        rank's NumPy arrays held in the innermost phase, wherever it is entered). Of a real run with
        ``counters=`` a column for each: `labkit.trace.counters`.

    Raises
    ------
    DataError
        The run was not recorded.
    """
    return profile_and_waiting(run)[0]


def profile_and_waiting(run: RecordedRun) -> tuple[pd.DataFrame, Waiting]:
    """Return what `profile_of` does, and the wait states that it is made of."""
    table, waiting, _ = profiled(run)
    return table, waiting


def profiled(run: RecordedRun) -> tuple[pd.DataFrame, Waiting, NDArray[np.int32]]:
    """Return these two, and the call path of each row of `Trace.calls`."""
    import pandas as pd

    waiting, call_path, sent_by = analysed(run)
    table = waiting.totals.copy()
    table.insert(4, "place", waiting.paths["place"].to_numpy()[table["path"].to_numpy()])
    paths = len(waiting.paths)
    place = table["rank"].to_numpy() * paths + table["path"].to_numpy()
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
        "messages": (at, np.ones(len(at))), "bytes": (at, sizes[known]),
        "empty_messages": (at, sizes[known] == 0), "collective_bytes": (place[:0], np.empty(0)),
        "empty_collectives": (place[:0], np.empty(0)),
    }  # fmt: skip
    if calls is not None and len(calls):
        joint = calls["joint"].to_numpy(np.int64)
        given = np.bincount(joint[joint >= 0], calls["bytes"].to_numpy(np.int64)[joint >= 0])
        empty = np.flatnonzero((joint >= 0) & (given[joint] == 0 if len(given) else False))
        of_call = calls["rank"].to_numpy(np.int64)[empty] * paths + call_path[empty]
        columns["empty_collectives"] = (of_call, np.ones(len(of_call)))
    if waiting.is_real and calls is not None and len(calls):
        joins = calls["joint"].to_numpy() >= 0
        of_call = calls["rank"].to_numpy(np.int64)[joins] * paths + call_path[joins]
        columns["collective_bytes"] = (of_call, calls["bytes"].to_numpy(np.int64)[joins])
    for name in _SENT:
        rows, amounts = columns[name]
        sums = pd.Series(np.asarray(amounts, np.float64)).groupby(rows).sum()
        table[name] = sums.reindex(place, fill_value=0).to_numpy().astype(np.int64)
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
    return table, waiting, call_path


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
