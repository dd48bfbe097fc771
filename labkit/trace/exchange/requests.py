"""Messages whose send or receive a call only begins: which call that is, and which one completes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from labkit.comm.surface import REQUESTS
from labkit.trace.waiting.windows import calls_at

if TYPE_CHECKING:
    from labkit.trace.exchange.events import Events

__all__ = ["Begun", "begun_messages"]

_ENDS = frozenset(row.name for row in REQUESTS)
_STARTS = frozenset({"Start", "Startall"})


class Begun(NamedTuple):
    """Messages of `Events` that were begun, by number.

    Attributes
    ----------
    sent : dict of int to int
        Row of the call in which the send was complete.
    received : dict of int to int
        Row of the call that began the receive.
    """

    sent: dict[int, int]
    received: dict[int, int]


def begun_messages(events: Events) -> Begun:
    """Find the sends and receives that a call only begins.

    A send is complete in the call that waited for it; one that nobody waited for, in the call that began it.
    """
    calls = events.run.trace.calls
    if calls is None or not len(calls):
        return Begun({}, {})
    names = [str(name) for name in calls["call"]]
    lower = [name.lower() for name in names]
    sends = [(one.startswith("i") and one.endswith("send")) or name in _STARTS
             for one, name in zip(lower, names, strict=True)]  # fmt: skip
    waited = _waited(events)
    numbers = zip(events.sent_in.tolist(), events.message.tolist(), strict=True)
    sent = {at: waited.get(row, call) for at, (call, row) in enumerate(numbers) if call >= 0 and sends[call]}
    return Begun(sent, _received(events, names, lower))


def _waited(events: Events) -> dict[int, int]:
    """Return by row of `Trace.messages` the call in which its sender waited for it."""
    trace = events.run.trace
    waits = trace.waits[trace.waits["message"] >= 0]
    rows = waits["message"].to_numpy(np.int64)
    source = trace.messages["source"].to_numpy(np.int64)
    own = waits["rank"].to_numpy(np.int64) == source[rows]
    waits, rows = waits[own], rows[own]
    middle = (waits["begin_s"].to_numpy() + waits["end_s"].to_numpy()) / 2
    found = calls_at(trace.calls, source[rows], middle)
    return {row: call for row, call in zip(rows.tolist(), found.tolist(), strict=True) if call >= 0}


def _received(events: Events, names: list[str], lower: list[str]) -> dict[int, int]:
    """Return by message that a wait or test received the call that had begun the receive."""
    trace = events.run.trace
    calls = trace.calls
    posted_s = trace.messages["recv_posted_s"].to_numpy(np.float64)[events.message]
    last = calls_at(calls, events.destination, posted_s).tolist()
    rank, begin, end = (calls[name].tolist() for name in ("rank", "begin_s", "end_s"))
    found: dict[int, int] = {}
    used: set[int] = set()
    for at in np.lexsort((np.arange(len(posted_s)), posted_s)).tolist()[::-1]:
        received, row = int(events.received_in[at]), last[at]
        if received < 0 or names[received] not in _ENDS:
            continue
        while row >= 0 and rank[row] == events.destination[at] and begin[row] <= posted_s[at] <= end[row]:
            if names[row] in _STARTS or (lower[row] == "irecv" and row not in used):
                found[at] = row
                used.add(row)
                break
            row -= 1  # calls that take no time
    return found
