"""The messages of a recorded run, counted for each rank and each of its phases."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import Trace

__all__ = ["counted"]

Values = tuple[int, ...]


def counted(trace: Trace, phases: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a row for each rank (phase ``""``) and for each phase that it was in.

    Parameters
    ----------
    trace : Trace
        Of a run on any machine.
    phases : DataFrame
        `Run.phases` of it.

    Returns
    -------
    list of dict
        rank, phase, messages and bytes sent, received and received_bytes, rounds: see `labkit.Run.counts`. Of
        a real run whose program calls collectives these are p2p_messages, p2p_bytes, ... and collectives (the
        rank's calls), collective_bytes (what it gave to them): which messages the MPI library makes of a
        collective is not seen.
    """
    lines = _Lines(len(trace.ends_s))
    for when_s, _, rank, size, number, is_send in _events(trace):
        if is_send:
            lines.sent(rank, size, number)
        else:
            lines.received(rank, size, number)
        lines.note(rank, when_s)
    names: tuple[str, ...] = ("messages", "bytes", "received", "received_bytes", "rounds")
    calls = None if trace.calls is None else trace.calls[trace.calls["joint"] >= 0]
    if calls is not None and len(calls):
        names = ("p2p_messages", "p2p_bytes", "p2p_received", "p2p_received_bytes")
    rows = []
    for rank in range(lines.ranks):
        values = lines.at(rank, float("inf"))
        rows.append({"rank": rank, "phase": "", **dict(zip(names, values, strict=False))})
    entries: dict[tuple[int, str], Values] = {}
    for rank, phase, begin_s, end_s in _spans(phases):
        before, after = lines.at(rank, begin_s), lines.at(rank, end_s)
        gained = [b - a for a, b in zip(before, after, strict=True)]
        known = entries.get((rank, phase), (0,) * len(gained))
        entries[rank, phase] = tuple(a + b for a, b in zip(known, gained, strict=True))
    rows += [
        {"rank": rank, "phase": phase, **dict(zip(names, values, strict=False))}
        for (rank, phase), values in entries.items()
    ]
    if calls is not None and len(calls):
        _add_collectives(rows, calls, phases)
    return rows


class _Lines:
    """What each rank has sent and received so far, over time; rounds as the engine counts them."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self._now = [[0, 0, 0, 0] for _ in range(ranks)]
        self._out, self._in, self._knows = [0] * ranks, [0] * ranks, [0] * ranks
        self._round: dict[int, int] = {}
        self._times: list[list[float]] = [[] for _ in range(ranks)]
        self._values: list[list[Values]] = [[] for _ in range(ranks)]

    def sent(self, rank: int, size: int, number: int) -> None:
        self._now[rank][0] += 1
        self._now[rank][1] += size
        self._out[rank] = self._round[number] = max(self._out[rank], self._knows[rank]) + 1

    def received(self, rank: int, size: int, number: int) -> None:
        self._now[rank][2] += 1
        self._now[rank][3] += size
        self._in[rank] = max(self._in[rank] + 1, self._round.get(number, 0))
        self._knows[rank] = max(self._knows[rank], self._in[rank])

    def note(self, rank: int, when_s: float) -> None:
        self._times[rank].append(when_s)
        self._values[rank].append((*self._now[rank], max(self._out[rank], self._in[rank])))

    def at(self, rank: int, when_s: float) -> Values:
        """Return the values of a rank at a time."""
        place = bisect_right(self._times[rank], when_s)
        return self._values[rank][place - 1] if place else (0,) * 5


def _events(trace: Trace) -> list[tuple[float, int, int, int, int, bool]]:
    """Return when a rank sent or had received which message, in order: a send before its receive."""
    m = trace.messages
    columns: Sequence[Any] = [
        m[name].tolist() for name in ("source", "destination", "bytes", "send_posted_s", "end_s")
    ]
    events = []
    for number, (source, destination, size, posted, end) in enumerate(zip(*columns, strict=True)):
        events.append((posted, 0, source, size, number, True))
        events.append((max(end, posted), 1, destination, size, number, False))
    return sorted(events)


def _spans(phases: pd.DataFrame) -> list[tuple[int, str, float, float]]:
    columns = (phases[name].tolist() for name in ("rank", "phase", "begin_s", "end_s"))
    return list(zip(*columns, strict=True))


def _add_collectives(rows: list[dict[str, Any]], calls: pd.DataFrame, phases: pd.DataFrame) -> None:
    """Add each rank's calls of collectives, and what it gave to them."""
    found: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    spans = _spans(phases)
    columns = (calls[name].tolist() for name in ("rank", "bytes", "begin_s"))
    for rank, size, begin_s in zip(*columns, strict=True):
        own = (span for span in spans if span[0] == rank)
        for phase in ("", *{name for _, name, begin, end in own if begin <= begin_s <= end}):
            found[rank, phase][0] += 1
            found[rank, phase][1] += int(size)
    for row in rows:
        row["collectives"], row["collective_bytes"] = found[row["rank"], row["phase"]]
