"""Paraver's three files: records (.prv), what their numbers mean (.pcf), names of rows (.row)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.exchange.events import CALL, COMPUTATION, PHASE, WAIT, Events
from labkit.trace.formats.text import open_out
from labkit.trace.waiting import KINDS

__all__ = ["write_paraver"]

#: states: Extrae's own numbers where it has one, and 100 + its number for each wait state
_IDLE, _RUNNING, _CALL = 0, 1, 15
_FIRST_WAIT = 100
_STATE_COLORS = {
    _IDLE: ("Idle", (117, 195, 255)), _RUNNING: ("Running", (0, 0, 255)), _CALL: ("In a call", (255, 146, 24))
}  # fmt: skip
#: types of events; a value of 0 ends what the one before has begun
_TYPES = {PHASE: (60000019, "Phase"), CALL: (50000003, "MPI call"), WAIT: (60000119, "Wait state")}
_SIZE = (50100001, "Bytes given to a collective")


def write_paraver(path: Path, events: Events) -> list[Path]:
    """Write Paraver's files: states, events of phases, calls and wait states, communications.

    Times are nanoseconds. A host is a node, a rank a task of one thread. The state of a rank is that of the
    innermost of what goes on: running, in a call, or one of the wait states. Of nested phases the event names
    the innermost. The format has no place for what was left out in its records: it stands in the .pcf.

    References
    ----------
    .. [1] Paraver: Parallel Program Visualization and Analysis Tool. Version 3.1, Reference Manual. Trace
       generation and format. Barcelona Supercomputing Center, 2001.
    """
    stem = path.with_suffix("")
    tables = [stem.with_suffix(".pcf"), stem.with_suffix(".row")]
    nodes = _nodes(events)
    with open_out(path) as file:
        file.write(_header(events, nodes).encode())
        part: list[str] = []
        for line in _records(events, nodes):
            part.append(line)
            if len(part) == 8192:
                file.write("".join(part).encode())
                part = []
        file.write("".join(part).encode())
    for target, lines in zip(tables, (_meanings(events), _rows(events, nodes)), strict=True):
        with open_out(target) as file:
            file.write("".join(lines).encode())
    return [path, *tables]


def _nodes(events: Events) -> NDArray[np.int64]:
    """Return the node of each rank, from 1 on, in the order in which the ranks come to them."""
    setting = events.run.trace.setting
    hosts = setting[0].rank_hosts(events.run.ranks).tolist() if setting else [0] * events.run.ranks
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(host, len(numbers) + 1) for host in hosts], np.int64)


def _cpus(nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of each rank's processor: they are numbered from 1 on, node by node."""
    numbers = np.empty(len(nodes), np.int64)
    numbers[np.argsort(nodes, kind="stable")] = np.arange(len(nodes)) + 1
    return numbers


def _end(events: Events) -> int:
    """The end of the trace: nothing in it may be later."""
    found = [
        int(column.max()) for column in (events.end_ns, events.received_ns, events.sent_ns) if len(column)
    ]
    return max([round(events.run.makespan_s * 1e9) if events.run.makespan_s > 0 else 0, *found])


def _header(events: Events, nodes: NDArray[np.int64]) -> str:
    cpus = ",".join(str(count) for count in np.bincount(nodes)[1:])
    tasks = ",".join(f"1:{node}" for node in nodes.tolist())
    ranks = events.run.ranks
    members = ":".join(str(rank + 1) for rank in range(ranks))
    # A date would make two files of the same run differ.
    return (
        f"#Paraver (01/01/2000 at 00:00):{_end(events)}_ns:{int(nodes.max())}({cpus}):1:{ranks}({tasks}),1\n"
        f"c:1:1:{ranks}:{members}\n"
    )


def _records(events: Events, nodes: NDArray[np.int64]) -> Iterator[str]:
    """Yield the records by time; at the same time states come first, then events, then communications."""
    cpu = [f"{number}:1:{rank + 1}:1" for rank, number in enumerate(_cpus(nodes).tolist())]
    above = _parents(events.depth)
    got = np.maximum(events.received_ns, events.sent_ns)
    states, marks = _states(events, above), _marks(events, above)
    messages = (events.source, events.destination, events.tag, events.bytes, events.sent_ns, got)
    lines = [
        f"1:{cpu[rank]}:{begin}:{end}:{state}\n"
        for rank, begin, end, state in zip(*(column.tolist() for column in states), strict=True)
    ]
    lines += [
        f"2:{cpu[rank]}:{at}:{type_}:{value}{size}\n"
        for rank, at, type_, value, size in zip(*(column.tolist() for column in marks), strict=True)
    ]
    lines += [
        f"3:{cpu[source]}:{sent}:{sent}:{cpu[destination]}:{late}:{late}:{size}:{tag}\n"
        for source, destination, tag, size, sent, late in zip(
            *(column.tolist() for column in messages), strict=True
        )
    ]
    when = np.concatenate([states[1], marks[1], events.sent_ns])
    return (lines[at] for at in np.argsort(when, kind="stable").tolist())


def _parents(depth: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the slice in which each lies; -1: in none."""
    found = np.full(len(depth), -1, np.int64)
    outer = np.flatnonzero(depth == 0)
    for level in range(1, int(depth.max(initial=0)) + 1):
        inner = np.flatnonzero(depth == level)
        found[inner] = outer[np.searchsorted(outer, inner) - 1]
        outer = inner
    return found


def _around(above: NDArray[np.int64], is_wanted: Any) -> NDArray[np.int64]:
    """Return for each slice the innermost of those around it that is wanted; -1: none.

    `is_wanted` tells it of slices and those around them.
    """
    found = above.copy()
    own = np.flatnonzero(found >= 0)
    while len(own := own[~is_wanted(own, found[own])]):
        found[own] = above[found[own]]
        own = own[found[own] >= 0]
    return found


def _states(events: Events, above: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Return rank, begin, end and number of states: a rank's follow each other until it ends, without gap."""
    name_of = {kind.name: _FIRST_WAIT + number for number, kind in enumerate(KINDS)}
    by_name = np.array([name_of.get(name, _IDLE) for name in events.names] or [_IDLE], np.int64)
    kind = events.kind
    own = np.where(kind == COMPUTATION, _RUNNING, np.where(kind == CALL, _CALL, by_name[events.name]))
    outer = _around(above, lambda _, around: kind[around] != PHASE)
    after = np.where(outer >= 0, own[outer], _IDLE) if len(own) else own
    when, which, over = events.moves()
    kept = np.flatnonzero(kind[which] != PHASE)
    kept = kept[np.argsort(events.rank[which[kept]], kind="stable")]
    when, which, over = when[kept], which[kept], over[kept]
    ranks = np.arange(events.run.ranks)
    ends = np.rint(np.asarray(events.run.trace.ends_s, np.float64) * 1e9).astype(np.int64)
    # each rank begins idle at 0, and is idle from its last move until it ends
    last = np.searchsorted(events.rank[which], ranks, side="right")
    rank, upto = np.insert(events.rank[which], last, ranks), np.insert(when, last, ends)
    state = np.insert(np.where(over, after[which], own[which]), last, _IDLE)
    first = np.ones(len(rank), bool)
    first[1:] = np.diff(rank) != 0
    since, during = np.zeros(len(rank), np.int64), np.full(len(rank), _IDLE)
    since[1:], during[1:] = upto[:-1], state[:-1]
    since[first], during[first] = 0, _IDLE
    during[last + ranks] = _IDLE
    some = upto > since
    return rank[some], since[some], upto[some], during[some]


def _marks(events: Events, above: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Return rank, time, type, value and what follows; an end has the number of what is around, or 0."""
    kind, calls = events.kind, events.run.trace.calls
    outer = _around(above, lambda own, around: kind[around] == kind[own])
    number = events.name + 1
    after = np.where(outer >= 0, number[outer], 0) if len(number) else number
    types = np.zeros(max(_TYPES) + 1, np.int64)
    types[list(_TYPES)] = [one for one, _ in _TYPES.values()]
    when, which, over = events.moves()
    kept = np.isin(kind[which], list(_TYPES))
    when, which, over = when[kept], which[kept], over[kept]
    more = np.full(len(when), "", object)
    if calls is not None:
        begun = np.flatnonzero(~over & (kind[which] == CALL))
        rows = events.row[which[begun]]
        joins = calls["joint"].to_numpy()[rows] >= 0
        sizes = calls["bytes"].to_numpy()[rows[joins]].tolist()
        more[begun[joins]] = [f":{_SIZE[0]}:{size}" for size in sizes]
    value = np.where(over, after[which], number[which])
    return events.rank[which], when, types[kind[which]], value, more


def _meanings(events: Events) -> Iterator[str]:
    """Yield the configuration: units, states and their colours, types of events and their values."""
    for name, value in events.facts().items():
        yield f"# {name}: {' '.join(str(value).split())}\n"
    yield "\nDEFAULT_OPTIONS\n\nLEVEL               THREAD\nUNITS               NANOSEC\n"
    yield "LOOK_BACK           100\nSPEED               1\nFLAG_ICONS          ENABLED\n"
    yield f"NUM_OF_STATE_COLORS 1000\nYMAX_SCALE          {max(events.run.ranks, 1)}\n\n\n"
    yield "DEFAULT_SEMANTIC\n\nTHREAD_FUNC         State As Is\n\n\n"
    waits = [(_FIRST_WAIT + number, kind.name) for number, kind in enumerate(KINDS)]
    yield "STATES\n"
    yield from (f"{number}    {name}\n" for number, (name, _) in _STATE_COLORS.items())
    yield from (f"{number}    {name}\n" for number, name in waits)
    yield "\n\nSTATES_COLOR\n"
    yield from (f"{number}    {{{r},{g},{b}}}\n" for number, (_, (r, g, b)) in _STATE_COLORS.items())
    for at, (number, _) in enumerate(waits):
        shade = 40 + 190 * at // len(waits)
        yield f"{number}    {{{255 - shade // 2},{shade},{shade // 2}}}\n"
    kinds = dict(zip(events.name.tolist(), events.kind.tolist(), strict=True))
    for kind, (number, meaning) in _TYPES.items():
        yield f"\n\nEVENT_TYPE\n9    {number}    {meaning}\nVALUES\n0    End\n"
        yield from (
            f"{name + 1}    {' '.join(events.names[name].split())}\n"
            for name in sorted(one for one, of in kinds.items() if of == kind)
        )
    yield f"\n\nEVENT_TYPE\n9    {_SIZE[0]}    {_SIZE[1]}\n\n"


def _rows(events: Events, nodes: NDArray[np.int64]) -> Iterator[str]:
    """Yield the names of the rows at each level."""
    ranks = events.run.ranks
    levels = {
        "CPU": [f"{nodes[rank]}.{rank + 1}" for rank in np.argsort(nodes, kind="stable").tolist()],
        "NODE": [f"node {node + 1}" for node in range(int(nodes.max()))],
        "THREAD": [f"rank {rank}" for rank in range(ranks)],
    }
    for level, names in levels.items():
        yield f"LEVEL {level} SIZE {len(names)}\n"
        yield from (f"{name}\n" for name in names)
        yield "\n"
