"""Trace events in JSON, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

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
#: nanoseconds that a slice is moved at most
_APART = 999

Ints = NDArray[np.int64]


def write_perfetto(path: Path, events: Events) -> list[Path]:
    """Write trace events: ranks are threads; phases, calls, computations, waits slices; messages flows.

    Times are microseconds, rounded to the nanoseconds that Perfetto keeps; a call of no time is drawn as one.
    A wait's arguments say who came late; counters say how many ranks wait and how many bytes are under way
    (of more than 5,000 changes the value at 5,000 equal steps). What was left out is listed in ``otherData``.

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
    begin, end = _apart(events)
    yield from _slices(events, begin, end)
    yield from _flows(events, begin, end)
    for name, when_ns, values in (_waiting(events), _under_way(events)):
        for at, value in zip(when_ns.tolist(), values.tolist(), strict=True):
            yield f'{{"ph":"C","name":"{name}","pid":{_PROCESS},"ts":{_us(at)},"args":{{"value":{value}}}}}'


def _named(what: str, rank: int, **args: object) -> dict[str, object]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": rank + 1, "args": args}


def _us(ns: int) -> str:
    """Write nanoseconds as microseconds."""
    sign = "-" if ns < 0 else ""
    whole, rest = divmod(abs(ns), 1000)
    return f"{sign}{whole}.{rest:03d}" if rest else f"{sign}{whole}.0"


def _slices(events: Events, begin_ns: Ints, end_ns: Ints) -> Iterator[str]:
    names = [json.dumps(name) for name in events.names]
    args = _arguments(events)
    columns = (events.rank, events.kind, events.name, begin_ns, end_ns)
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


def _flows(events: Events, begin_ns: Ints, end_ns: Ints) -> Iterator[str]:
    """Yield an arrow for each message; its ends lie within the calls that sent and received it.

    Perfetto ties an end to the slice of the rank that began last at its time.
    """
    sent = _inside(events, events.sent_in, events.sent_ns, begin_ns, end_ns)
    received = _inside(events, events.received_in, events.received_ns, begin_ns, end_ns)
    received = np.maximum(received, sent)
    columns = (
        events.source,
        events.destination,
        events.tag,
        events.bytes,
        events.sent_ns,
        events.received_ns,
        sent,
        received,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for at, (source, destination, tag, size, sent_ns, got_ns, begin, end) in enumerate(rows):
        same = f'"cat":"message","name":"message","id":{at},"pid":{_PROCESS}'
        yield (
            f'{{"ph":"s",{same},"tid":{source + 1},"ts":{_us(begin)},"args":{{"bytes":{size},"tag":{tag},'
            f'"sent_us":{_us(sent_ns)},"received_us":{_us(got_ns)}}}}}'
        )
        yield f'{{"ph":"f","bp":"e",{same},"tid":{destination + 1},"ts":{_us(end)}}}'


def _inside(events: Events, row: Ints, when_ns: Ints, begin: Ints, end: Ints) -> Ints:
    """Move times at the border of their drawn call a nanosecond into it."""
    slices = np.full(int(max(events.row.max(initial=-1), row.max(initial=-1))) + 2, -1)
    calls = np.flatnonzero(events.kind == CALL)
    slices[events.row[calls]] = calls
    at = np.where(row >= 0, slices[row], -1)
    known = np.flatnonzero(at >= 0)
    found = when_ns.copy()
    begin, end = begin[at[known]], end[at[known]]
    last = np.maximum(end - 1, begin)
    found[known] = np.clip(when_ns[known], np.minimum(begin + 1, last), last)
    return found


def _apart(events: Events) -> tuple[Ints, Ints]:
    """Return begins and ends of the slices such that what takes no time takes a nanosecond.

    Perfetto puts a slice of no time into whatever begins just then. What follows of the rank at the same time
    moves with it (to 999 ns at most).
    """
    when, which, ends = events.moves()
    begin, end = events.begin_ns.copy(), events.end_ns.copy()
    order = np.argsort(events.rank[which], kind="stable")
    takes = ends & (events.kind[which] == CALL) & (begin[which] == end[which])
    borders = np.searchsorted(events.rank[which[order]], np.arange(events.run.ranks + 1))
    for low, high in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        mine = order[low:high]
        passed = np.cumsum(takes[mine])
        moved = np.maximum.accumulate(when[mine] - passed) + passed if len(mine) else when[mine]
        moved = np.minimum(moved, when[mine] + _APART)
        is_end = ends[mine]
        begin[which[mine[~is_end]]], end[which[mine[is_end]]] = moved[~is_end], moved[is_end]
    return begin, end


def _waiting(events: Events) -> tuple[str, Ints, Ints]:
    begin, end = (np.rint(events.waits[name].to_numpy(np.float64) * 1e9) for name in ("begin_s", "end_s"))
    ones = np.ones(len(begin), np.int64)
    return ("ranks waiting", *_steps(begin, end, ones))


def _under_way(events: Events) -> tuple[str, Ints, Ints]:
    """Bytes that are sent and not received, of all messages of the run."""
    table = events.run.trace.messages
    begin, end = (np.rint(table[name].to_numpy(np.float64) * 1e9) for name in ("send_posted_s", "end_s"))
    return ("bytes under way", *_steps(begin, np.maximum(begin, end), table["bytes"].to_numpy(np.int64)))


def _steps(begin: NDArray[np.float64], end: NDArray[np.float64], amount: Ints) -> tuple[Ints, Ints]:
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
