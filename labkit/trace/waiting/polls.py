"""Waits of ranks that ask again and again: tests and probes that found nothing, and what they asked for.

A rank that polls is never blocked, so that no wait is recorded of it. Polls that follow each other closely
are one call in `Trace.calls`. What such a call lasted until the other side's call began is a wait state, as
of the blocking call in its place. What is polled for is not recorded: it is taken to be what is over next.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from labkit.comm.surface import METHODS, REQUESTS
from labkit.trace.waiting.kinds import kind_number
from labkit.trace.waiting.windows import calls_at

if TYPE_CHECKING:
    from labkit.trace.trace import Trace
    from labkit.trace.waiting.call_kinds import CallKinds

__all__ = ["poll_waits", "polled_operations"]

_LOOKS = ("one", "all", "any", "some")
_TESTS = frozenset(row.name for row in REQUESTS if row.form == "nonblocking" and row.kind in _LOOKS)
_PROBES = frozenset(row.name for row in METHODS if row.form == "nonblocking" and row.kind == "probe")
_LATE_SENDER, _LATE_RECEIVER = kind_number("late sender"), kind_number("late receiver")

Array = NDArray[np.float64]
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


def poll_waits(trace: Trace, kinds: CallKinds) -> dict[str, NDArray[Any]]:
    """Find for which messages ranks waited in their tests and probes.

    Parameters
    ----------
    trace : Trace
    kinds : CallKinds
        Of its calls.

    Returns
    -------
    dict of arrays
        The columns of `labkit.trace.waiting.tables.given_columns`.
    """
    names = ("rank", "begin_s", "until_s", "cause", "call", "cause_call", "state")
    found: dict[str, NDArray[Any]] = {name: np.empty(0) for name in names}
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

    Parameters
    ----------
    polls : tuple of arrays
        Their ranks, in ascending order, and times, ascending for each rank.
    rank, enters, key, name : arrays
        Of what ranks have: whose it is, from when on it is open, when it is over, and what it is called here.
    leaves : array, optional
        When it is no longer asked for, if that may be before it is over.
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
