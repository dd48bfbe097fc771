"""Waits of ranks that ask again and again: tests and probes that found nothing, and what they asked for.

A rank that polls is never blocked, so that no wait is recorded of it. Polls that follow each other closely
are one call in `Trace.calls`. What such a call lasted until the other side's call began is a wait state, as
of the blocking call in its place. What is polled for is not recorded: it is taken to be what is over next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.surface import METHODS, REQUESTS
from labkit.trace.waiting.kinds import kind_number
from labkit.trace.waiting.windows import calls_at

if TYPE_CHECKING:
    from labkit.trace.trace import Trace
    from labkit.trace.waiting.tables import CallKinds

__all__ = ["poll_waits", "polled_operations"]

_LOOKS = ("one", "all", "any", "some")
_TESTS = frozenset(row.name for row in REQUESTS if row.form == "nonblocking" and row.kind in _LOOKS)
_PROBES = frozenset(row.name for row in METHODS if row.form == "nonblocking" and row.kind == "probe")
_LATE_SENDER, _LATE_RECEIVER = kind_number("late sender"), kind_number("late receiver")

Array = NDArray[np.float64]


def poll_waits(trace: Trace, kinds: CallKinds) -> dict[str, list[Any]]:
    """Find for which messages ranks waited in their tests and probes.

    Parameters
    ----------
    trace : Trace
    kinds : CallKinds
        Of its calls.

    Returns
    -------
    dict of lists
        The columns of `labkit.trace.waiting.tables.given_columns`.
    """
    found: dict[str, list[Any]] = {
        name: [] for name in ("rank", "begin_s", "until_s", "cause", "call", "cause_call", "state")
    }
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
    own = source != destination
    received, sent = own.copy(), own.copy()
    for side, mine in (("recv_operation", received), ("send_operation", sent)):
        if side in messages:  # a collective's, that goes on beside the rank
            mine &= messages[side].to_numpy() < 0
    receives, sends = _by_rank(destination, over, received), _by_rank(source, over, sent)
    arrivals = _by_rank(destination, posted, own)

    def add(row: int, message: int, is_receiver: bool) -> None:
        cause = source[message] if is_receiver else destination[message]
        when = posted[message] if is_receiver else taken[message]
        there = int(calls_at(calls, np.array([cause]), np.array([when]))[0])
        until = min(end[row], begin[there] if there >= 0 else when)
        if until > begin[row]:
            state = _LATE_SENDER if is_receiver else _LATE_RECEIVER
            values = (owner[row], begin[row], until, cause, row, there, state)
            for column, value in zip(found.values(), values, strict=True):
                column.append(value)

    for row in tests.tolist():
        rank, since = int(owner[row]), begin[row]
        message = _first(receives.get(rank), over, taken, since)
        if message >= 0:
            add(row, message, True)
        elif (message := _first(sends.get(rank), over, posted, since)) >= 0:
            add(row, message, False)
    for row in probes.tolist():
        rank, since = int(owner[row]), begin[row]
        message = _first(arrivals.get(rank), posted, -taken, since, -since)
        if message >= 0:
            add(row, message, True)
    return found


def polled_operations(
    calls: Any, kinds: CallKinds, operations: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find which nonblocking collectives ranks tested for: rows of `Trace.calls` and of `Trace.operations`.

    Of each the longest of the tests before it was over.
    """
    none = np.empty(0, np.int64)
    if calls is None or not len(calls) or not len(operations):
        return none, none
    begin, end, owner = (calls[name].to_numpy() for name in ("begin_s", "end_s", "rank"))
    tests = np.flatnonzero(kinds.are(_TESTS) & (end > begin))
    if not len(tests):
        return none, none
    since, over = (operations[name].to_numpy(np.float64) for name in ("begin_s", "end_s"))
    own = _by_rank(operations["rank"].to_numpy(np.int64), over, np.ones(len(over), bool))
    best: dict[int, int] = {}
    for row in tests.tolist():
        operation = _first(own.get(int(owner[row])), over, since, begin[row])
        if operation < 0:
            continue
        before = best.get(operation)
        if before is None or end[row] - begin[row] > end[before] - begin[before]:
            best[operation] = row
    return np.array([*best.values()], np.int64), np.array([*best], np.int64)


#: rows in order of a key, these keys, and from each place on the least of another column
_Own = tuple[NDArray[np.int64], Array, dict[str, Array]]


def _by_rank(rank: NDArray[np.int64], key: Array, chosen: NDArray[np.bool_]) -> dict[int, _Own]:
    rows = np.flatnonzero(chosen)
    rows = rows[np.lexsort((key[rows], rank[rows]))]
    borders = np.flatnonzero(np.diff(rank[rows])) + 1
    return {int(rank[part[0]]): (part, key[part], {}) for part in np.split(rows, borders) if len(part)}


def _first(own: _Own | None, key: Array, low: Array, since: float, most: float | None = None) -> int:
    """Return the first row of a rank whose key is above a time and whose `low` is at most `most`; -1: none.

    Parameters
    ----------
    own : tuple or None
        What `_by_rank` has of the rank.
    key, low : arrays
        By row.
    since : float
    most : float, optional
        Default: the time.
    """
    if own is None:
        return -1
    most = since if most is None else most
    rows, keys, least = own
    if "least" not in least:
        least["least"] = np.minimum.accumulate(low[rows][::-1])[::-1]
    place = int(np.searchsorted(keys, since, side="right"))
    while place < len(rows) and least["least"][place] <= most:
        if low[rows[place]] <= most:
            return int(rows[place])
        place += 1
    return -1
