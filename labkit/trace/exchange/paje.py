"""Paje's text, which ViTE and PajeNG open: containers, states, links, variables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from labkit.trace.exchange.events import CALL, COMPUTATION, PHASE, WAIT, Events
from labkit.trace.formats.text import open_out

__all__ = ["write_paje"]

#: number, name and fields of each kind of event
_HEADER = [
    (0, "PajeDefineContainerType", "Alias string,Type string,Name string"),
    (1, "PajeDefineStateType", "Alias string,Type string,Name string"),
    (2, "PajeDefineLinkType", "Alias string,Type string,StartContainerType string,EndContainerType string,"
                              "Name string"),
    (3, "PajeDefineEntityValue", "Alias string,Type string,Name string,Color color"),
    (4, "PajeCreateContainer", "Time date,Alias string,Type string,Container string,Name string"),
    (5, "PajeDestroyContainer", "Time date,Type string,Name string"),
    (6, "PajePushState", "Time date,Type string,Container string,Value string"),
    (7, "PajePopState", "Time date,Type string,Container string"),
    (8, "PajeStartLink", "Time date,Type string,Container string,StartContainer string,Value string,"
                         "Key string"),
    (9, "PajeEndLink", "Time date,Type string,Container string,EndContainer string,Value string,Key string"),
]  # fmt: skip
_COLORS = {
    PHASE: "0.90 0.90 0.90", CALL: "0.84 0.37 0.00", COMPUTATION: "0.34 0.71 0.91", WAIT: "0.29 0.06 0.37"
}  # fmt: skip
#: phases and calls are two rows of states: a phase of the program, and what the rank does in it
_TYPES = {PHASE: "P", CALL: "S", COMPUTATION: "S", WAIT: "S"}
_PUSH, _POP, _SEND, _RECEIVE = range(4)


def write_paje(path: Path, events: Events) -> list[Path]:
    """Write Paje's text: a container for each rank, with its phases, and its states; messages as links.

    Times are seconds, exact to the nanosecond. What was left out stands in the comments at the top.

    References
    ----------
    .. [1] L. M. Schnorr, B. de Oliveira Stein, J. Chassin de Kergommeaux: Paje trace file format, version
       1.2.5. 2013.
    """
    with open_out(path) as file:
        part: list[str] = []
        for line in _lines(events):
            part.append(line)
            if len(part) == 8192:
                file.write("".join(part).encode())
                part = []
        file.write("".join(part).encode())
    return [path]


def _lines(events: Events) -> Iterator[str]:
    for name, value in events.facts().items():
        yield f"# {name}: {' '.join(str(value).split())}\n"
    for number, name, fields in _HEADER:
        yield f"%EventDef {name} {number}\n"
        yield from (f"% {field}\n" for field in fields.split(","))
        yield "%EndEventDef\n"
    yield '0 R 0 "run"\n0 K R "rank"\n1 P K "phase"\n1 S K "state"\n2 L R K K "message"\n'
    kinds = dict(zip(events.name.tolist(), events.kind.tolist(), strict=True))
    yield from (
        f'3 v{number} {_TYPES[kind]} {_quoted(events.names[number])} "{_COLORS[kind]}"\n'
        for number, kind in sorted(kinds.items())
    )
    yield '3 m L "message" "0.00 0.00 0.00"\n'
    yield f"4 0.000000000 run R 0 {_quoted(f'{events.run.program} on {events.run.on}')}\n"
    yield from (f'4 0.000000000 r{rank} K run "rank {rank}"\n' for rank in range(events.run.ranks))
    last = 0
    for last, line in _body(events):  # noqa: B007 - the time of the last one is the end
        yield line
    end = _s(max(last, round(events.run.makespan_s * 1e9) if events.run.makespan_s > 0 else 0))
    yield from (f"5 {end} K r{rank}\n" for rank in range(events.run.ranks))
    yield f"5 {end} R run\n"


def _body(events: Events) -> Iterator[tuple[int, str]]:
    """Yield what happens, in order of time: ends of links behind everything else of their time."""
    when, which, ends = events.moves()
    count = len(events.source)
    received = np.maximum(events.received_ns, events.sent_ns)
    times = np.concatenate([when, events.sent_ns, received])
    what = np.concatenate([
        np.where(ends, _POP, _PUSH), np.full(count, _SEND), np.full(count, _RECEIVE)
    ])  # fmt: skip
    at = np.concatenate([which, np.arange(count), np.arange(count)])
    late = (what == _RECEIVE).astype(np.int8)
    order = np.lexsort((late, times))
    rank, name = events.rank.tolist(), events.name.tolist()
    kinds = [_TYPES[kind] for kind in events.kind.tolist()]
    source, destination, size = (
        column.tolist() for column in (events.source, events.destination, events.bytes)
    )
    for time, kind, i in zip(times[order].tolist(), what[order].tolist(), at[order].tolist(), strict=True):
        if kind == _PUSH:
            yield time, f"6 {_s(time)} {kinds[i]} r{rank[i]} v{name[i]}\n"
        elif kind == _POP:
            yield time, f"7 {_s(time)} {kinds[i]} r{rank[i]}\n"
        elif kind == _SEND:
            yield time, f'8 {_s(time)} L run r{source[i]} "{size[i]} B" {i}\n'
        else:
            yield time, f'9 {_s(time)} L run r{destination[i]} "{size[i]} B" {i}\n'


def _s(ns: int) -> str:
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1_000_000_000}.{abs(ns) % 1_000_000_000:09d}"


def _quoted(text: str) -> str:
    """Quote a name; the format has no way to write a quote or a line's end in one."""
    words = " ".join(text.replace('"', "'").split())
    return f'"{words}"'
