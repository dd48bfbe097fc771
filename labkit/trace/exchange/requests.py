"""Messages whose send or receive a call only begins: which call that is, and which one completes it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from labkit.comm.surface import REQUESTS
from labkit.trace.waiting.windows import calls_at

if TYPE_CHECKING:
    from labkit.trace.exchange.events import Events

__all__ = ["Begun", "begun_messages"]

_ENDS = frozenset(row.name for row in REQUESTS)
_STARTS = frozenset({"Start", "Startall"})
#: waits and tests for one request, in small letters
_SINGLE = frozenset({"wait", "test", "waitany", "testany"})


class Begun(NamedTuple):
    """Messages of `Events` that were begun, by number.

    Attributes
    ----------
    sent : dict of int to int
        Row of the call in which the send was complete.
    received : dict of int to int
        Row of the call that began the receive.
    ended : dict of int to int
        Row of the call in which such a receive was complete.
    sent_ns : dict of int to int
        When a send was complete for which a call waited.
    """

    sent: dict[int, int]
    received: dict[int, int]
    ended: dict[int, int]
    sent_ns: dict[int, int]


def begun_messages(events: Events) -> Begun:
    """Find the sends and receives that a call only begins.

    A send is complete in the call that waited for it; one that nobody waited for, in the call that began it.
    """
    calls = events.run.trace.calls
    if calls is None or not len(calls):
        return Begun({}, {}, {}, {})
    names = [str(name) for name in calls["call"]]
    lower = [name.lower() for name in names]
    sends = [(one.startswith("i") and one.endswith("send")) or name in _STARTS
             for one, name in zip(lower, names, strict=True)]  # fmt: skip
    waited = _waited(events)
    numbers = zip(events.sent_in.tolist(), events.message.tolist(), strict=True)
    sent, sent_ns = {}, {}
    for at, (call, row) in enumerate(numbers):
        if call >= 0 and sends[call]:
            sent[at] = call
            if row in waited:
                sent[at], sent_ns[at] = waited[row]
    begun = _begun(events, names)
    ended = _ended(events, names, begun, sent.values())
    return Begun(sent, {at: begun[at] for at in ended}, ended, sent_ns)


def _waited(events: Events) -> dict[int, tuple[int, int]]:
    """Return by row of `Trace.messages` the call in which its sender waited for it, and until when in ns."""
    trace = events.run.trace
    waits = trace.waits[trace.waits["message"] >= 0]
    rows = waits["message"].to_numpy(np.int64)
    source = trace.messages["source"].to_numpy(np.int64)
    own = waits["rank"].to_numpy(np.int64) == source[rows]
    waits, rows = waits[own], rows[own]
    middle = (waits["begin_s"].to_numpy() + waits["end_s"].to_numpy()) / 2
    found = calls_at(trace.calls, source[rows], middle).tolist()
    until = np.rint(waits["end_s"].to_numpy(np.float64) * 1e9).astype(np.int64).tolist()
    return {row: (call, ns) for row, call, ns in zip(rows.tolist(), found, until, strict=True) if call >= 0}


def _begun(events: Events, names: list[str]) -> dict[int, int]:
    """Return by message that a call did not receive itself the call that had begun the receive."""
    trace = events.run.trace
    posted_s = trace.messages["recv_posted_s"].to_numpy(np.float64)[events.message]
    last = calls_at(trace.calls, events.destination, posted_s).tolist()
    rank, begin, end = (trace.calls[name].tolist() for name in ("rank", "begin_s", "end_s"))
    own = trace.is_own[events.message].tolist()
    # A call that receives at once: what is over last in it of what was posted in it.
    at_once = {
        row: at for at, row in enumerate(events.received_in.tolist())
        if row >= 0 and "recv" in names[row].lower() and begin[row] <= posted_s[at] <= end[row] and own[at]
    }  # fmt: skip
    plain = set(at_once.values())
    found: dict[int, int] = {}
    used: set[int] = set()
    for at in np.lexsort((np.arange(len(posted_s)), posted_s)).tolist()[::-1]:
        row = last[at]
        if at in plain or not own[at]:
            continue
        while row >= 0 and rank[row] == events.destination[at] and begin[row] <= posted_s[at] <= end[row]:
            if names[row] in _STARTS or (names[row].lower() == "irecv" and row not in used):
                found[at] = row
                used.add(row)
                break
            row -= 1  # calls that take no time
    return found


def _ended(events: Events, names: list[str], begun: dict[int, int], taken: Iterable[int]) -> dict[int, int]:
    """Return by message whose receive was begun the call in which it was complete.

    That is the call that waited for it, or the rank's first wait or test from then on; of those for a single
    request each takes one.
    """
    calls = events.run.trace.calls
    rank, end = calls["rank"].to_numpy(), calls["end_s"].to_numpy()
    ends = np.flatnonzero(calls["call"].isin(_ENDS).to_numpy())
    when_s = events.run.trace.messages["end_s"].to_numpy(np.float64)[events.message].tolist()
    borders = np.searchsorted(rank[ends], np.arange(events.run.ranks + 1)).tolist()
    rows, over_s = ends.tolist(), end[ends].tolist()
    received, destination = events.received_in.tolist(), events.destination.tolist()
    found = {at: received[at] for at in begun if received[at] >= 0 and names[received[at]] in _ENDS}
    used = {row for row in (*found.values(), *taken) if names[row].lower() in _SINGLE}
    for at in sorted(begun.keys() - found.keys(), key=lambda one: begun[one]):
        low, high = borders[destination[at]], borders[destination[at] + 1]
        place = max(bisect_right(rows, begun[at], low, high), bisect_left(over_s, when_s[at], low, high))
        while place < high and rows[place] in used:
            place += 1
        if place < high:
            found[at] = rows[place]
            if names[rows[place]].lower() in _SINGLE:
                used.add(rows[place])
    return found
