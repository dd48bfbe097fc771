"""Trace events in JSON, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.exchange.events import CALL, KINDS, WAIT, Events
from labkit.trace.formats.text import open_out

__all__ = ["write_perfetto"]

#: the one process, whose threads are the ranks: 0 would be the idle one of a kernel
_PROCESS = 1
#: steps that a counter has at most
_STEPS = 5000
_LINES = 4096


def write_perfetto(path: Path, events: Events) -> list[Path]:
    """Write trace events: ranks are threads; phases, calls, computations, waits slices; messages flows.

    Times are microseconds, exact to the nanosecond, which is what Perfetto keeps. A wait's arguments say who
    came late; counters say how many ranks wait and how many bytes are under way (of more than 5,000 changes
    the value at so many equal steps). What was left out stands in ``otherData``.

    References
    ----------
    .. [1] Trace Event Format. Google, 2016, and https://perfetto.dev/docs/getting-started/other-formats
    """
    with open_out(path) as file:
        head = {"displayTimeUnit": "ns", "otherData": events.facts()}
        file.write(json.dumps(head)[:-1].encode() + b', "traceEvents": [\n')
        lines: list[str] = []
        first = True
        for line in _lines(events):
            lines.append(line)
            if len(lines) == _LINES:
                file.write((("" if first else ",\n") + ",\n".join(lines)).encode())
                lines, first = [], False
        file.write(((",\n" if lines and not first else "") + ",\n".join(lines) + "\n]}\n").encode())
    return [path]


def _lines(events: Events) -> Iterator[str]:
    title = f"{events.run.program} on {events.run.on}"
    yield json.dumps(_named("process_name", 0, name=title))
    for rank in range(events.run.ranks):
        yield json.dumps(_named("thread_name", rank, name=f"rank {rank}"))
        yield json.dumps(_named("thread_sort_index", rank, sort_index=rank))
    yield from _slices(events)
    yield from _flows(events)
    for name, when_ns, values in (_waiting(events), _under_way(events)):
        for at, value in zip(when_ns.tolist(), values.tolist(), strict=True):
            yield f'{{"ph":"C","name":"{name}","pid":{_PROCESS},"ts":{_us(at)},"args":{{"value":{value}}}}}'


def _named(what: str, rank: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": rank + 1, "args": args}


def _us(ns: int) -> str:
    """Write nanoseconds as microseconds."""
    sign = "-" if ns < 0 else ""
    whole, rest = divmod(abs(ns), 1000)
    return f"{sign}{whole}.{rest:03d}" if rest else f"{sign}{whole}.0"


def _slices(events: Events) -> Iterator[str]:
    names = [json.dumps(name) for name in events.names]
    args = _arguments(events)
    columns = (events.rank, events.kind, events.name, events.begin_ns, events.end_ns)
    rows = zip(*(column.tolist() for column in columns), args, strict=True)
    for rank, kind, name, begin, end, extra in rows:
        yield (
            f'{{"ph":"X","cat":"{KINDS[kind]}","name":{names[name]},"pid":{_PROCESS},"tid":{rank + 1},'
            f'"ts":{_us(begin)},"dur":{_us(end - begin)}{extra}}}'
        )


def _arguments(events: Events) -> list[str]:
    """Return the arguments of each slice, as text that follows others."""
    found = [""] * len(events.rank)
    calls = events.run.trace.calls
    rows = events.row.tolist()
    if calls is not None:
        places, sizes, joint = (calls[name].tolist() for name in ("place", "bytes", "joint"))
        said = {place: json.dumps(place) for place in set(places)}
        for at in np.flatnonzero(events.kind == CALL).tolist():
            row = rows[at]
            given = f',"bytes":{sizes[row]}' if joint[row] >= 0 else ""
            found[at] = f',"args":{{"place":{said[places[row]]}{given}}}'
    waits = events.waits
    cause, phase, direct = (waits[name].tolist() for name in ("cause", "phase", "direct_s"))
    passed = waits["passed_s"].tolist()
    for at in np.flatnonzero(events.kind == WAIT).tolist():
        row = rows[at]
        who = f'"rank {cause[row]}"' if cause[row] >= 0 else '"not known"'
        found[at] = (
            f',"args":{{"waited for":{who},"in phase":{json.dumps(str(phase[row]))},'
            f'"direct_us":{direct[row] * 1e6!r},"passed_on_us":{passed[row] * 1e6!r}}}'
        )
    return found


def _flows(events: Events) -> Iterator[str]:
    """Yield an arrow for each message; its ends lie within the calls that sent and received it.

    Perfetto ties an end to the slice that is open at its time, and none is at a slice's end.
    """
    sent = _inside(events, events.source, events.sent_ns)
    received = np.maximum(_inside(events, events.destination, events.received_ns), sent)
    columns = (
        events.source, events.destination, events.tag, events.bytes, events.sent_ns, events.received_ns, sent,
        received,
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for at, (source, destination, tag, size, sent_ns, got_ns, begin, end) in enumerate(rows):
        same = f'"cat":"message","name":"message","id":{at},"pid":{_PROCESS}'
        yield (
            f'{{"ph":"s",{same},"tid":{source + 1},"ts":{_us(begin)},"args":{{"bytes":{size},"tag":{tag},'
            f'"sent_us":{_us(sent_ns)},"received_us":{_us(got_ns)}}}}}'
        )
        yield f'{{"ph":"f","bp":"e",{same},"tid":{destination + 1},"ts":{_us(end)}}}'


def _inside(events: Events, rank: NDArray[np.int64], when_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Move times at the very end of a call a nanosecond into it."""
    found = when_ns.copy()
    calls = events.kind == CALL
    of_rank, begin, end = events.rank[calls], events.begin_ns[calls], events.end_ns[calls]
    borders = np.searchsorted(of_rank, np.arange(events.run.ranks + 1))
    by_rank = np.argsort(rank, kind="stable")
    parts = np.searchsorted(rank[by_rank], np.arange(events.run.ranks + 1))
    for one in range(events.run.ranks):
        low, high = borders[one], borders[one + 1]
        mine = by_rank[parts[one] : parts[one + 1]]
        if low == high or not len(mine):
            continue
        place = np.searchsorted(end[low:high], when_ns[mine], side="left") + low
        fits = np.minimum(place, high - 1)
        at_end = (place < high) & (end[fits] == when_ns[mine]) & (begin[fits] < end[fits])
        found[mine[at_end]] -= 1
    return found


def _waiting(events: Events) -> tuple[str, NDArray[np.int64], NDArray[np.int64]]:
    begin, end = (np.rint(events.waits[name].to_numpy(np.float64) * 1e9) for name in ("begin_s", "end_s"))
    ones = np.ones(len(begin), np.int64)
    return ("ranks waiting", *_steps(begin, end, ones))


def _under_way(events: Events) -> tuple[str, NDArray[np.int64], NDArray[np.int64]]:
    """Bytes that are sent and not received, of all messages of the run."""
    table = events.run.trace.messages
    begin, end = (np.rint(table[name].to_numpy(np.float64) * 1e9) for name in ("send_posted_s", "end_s"))
    return ("bytes under way", *_steps(begin, np.maximum(begin, end), table["bytes"].to_numpy(np.int64)))


def _steps(
    begin: NDArray[np.float64], end: NDArray[np.float64], amount: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when the sum of what is under way changes, and to what."""
    known = np.isfinite(begin) & np.isfinite(end)
    when = np.concatenate([begin[known], end[known]]).astype(np.int64)
    change = np.concatenate([amount[known], -amount[known]])
    times, place = np.unique(when, return_inverse=True)
    sums = np.zeros(len(times), np.int64)
    np.add.at(sums, place, change)
    values = np.cumsum(sums)
    if len(times) > _STEPS:
        grid = np.linspace(times[0], times[-1], _STEPS).astype(np.int64)
        return grid, values[np.searchsorted(times, grid, side="right") - 1]
    return times, values
