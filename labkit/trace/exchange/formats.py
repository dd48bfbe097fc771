"""The formats that a run is exported in: one table, an entry each."""

from __future__ import annotations

import io
import os
import shutil
import struct
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from labkit.checks import path_of
from labkit.errors import DataError, nearest
from labkit.trace.exchange.events import CALL, COMPUTATION, LIMIT, PHASE, WAIT, Events, events_of
from labkit.trace.exchange.otf2_archive import check_archive, write_otf2
from labkit.trace.exchange.perfetto import write_perfetto
from labkit.trace.formats.text import open_out
from labkit.trace.reports import Report, report_of
from labkit.trace.waiting import KINDS

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import RecordedRun

__all__ = ["FORMATS", "Format", "check_export", "export", "frame_of"]


# Paraver's three files: records (.prv), what their numbers mean (.pcf), names of rows (.row).


#: states: Extrae's own numbers where it has one, and 100 + its number for each wait state
_IDLE, _RUNNING, _CALL = 0, 1, 15
_FIRST_WAIT = 100
_STATE_COLORS = {
    _IDLE: ("Idle", (117, 195, 255)),
    _RUNNING: ("Running", (0, 0, 255)),
    _CALL: ("In a call", (255, 146, 24)),
}
#: types of events; a value of 0 ends what the one before has begun
_EVENT_TYPES = {PHASE: (60000019, "Phase"), CALL: (50000003, "MPI call"), WAIT: (60000119, "Wait state")}
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


def _around(
    above: NDArray[np.int64], is_wanted: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
) -> NDArray[np.int64]:
    """Return for each slice the innermost of those around it that is wanted; -1: none.

    `is_wanted` decides for slices and those around them.
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


def _marks(events: Events, above: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Return rank, time, type, value and what follows; an end has the number of what is around, or 0."""
    kind, calls = events.kind, events.run.trace.calls
    outer = _around(above, lambda own, around: kind[around] == kind[own])
    number = events.name + 1
    after = np.where(outer >= 0, number[outer], 0) if len(number) else number
    types = np.zeros(max(_EVENT_TYPES) + 1, np.int64)
    types[list(_EVENT_TYPES)] = [one for one, _ in _EVENT_TYPES.values()]
    when, which, over = events.moves()
    kept = np.isin(kind[which], list(_EVENT_TYPES))
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
    """Yield the configuration: units, states and their colors, types of events and their values."""
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
    for kind, (number, meaning) in _EVENT_TYPES.items():
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


class Format(NamedTuple):
    """A format.

    `endings`: Of files' names.
    `write`: ``write(path, what)`` returns the files that it has written.
    `is_profile`: It is given a `labkit.trace.reports.Report`, not `labkit.trace.exchange.Events`.
    `may_be_packed`: A name may also end in ``.gz``.
    `opens`: What opens it.
    """

    endings: tuple[str, ...]
    write: Callable[[Path, Any], list[Path]]
    is_profile: bool
    may_be_packed: bool
    opens: str


# Data frames of Pipit and Hatchet.


def pipit_frame(events: Events) -> pd.DataFrame:
    """Return the events as Pipit has them: what ``pipit.Trace(None, frame)`` takes.

    Returns: By time: Timestamp (ns), Event Type (Enter, Leave, Instant), Name, Process (the rank),
        Attributes: of ``MpiSend`` and ``MpiRecv`` a mapping as Pipit's reader of OTF2 gives it, receiver or
        sender, msg_tag and msg_length in bytes; else None. ``frame.attrs`` lists what was left out.
    """
    import pandas as pd

    times, parts, what, which, rank = events.sequence()
    names = np.array([*events.names, "MpiSend", "MpiRecv"], object)
    moves, sends, receives = what < 2, what == 2, what == 3
    number = np.full(len(what), len(events.names))
    number[moves] = events.name[which[moves]]
    number[receives] += 1
    attributes = np.full(len(what), None, object)
    for side, other, mask in (("receiver", events.destination, sends), ("sender", events.source, receives)):
        rows = which[mask]
        columns = (column[rows].tolist() for column in (other, events.tag, events.bytes))
        attributes[mask] = [
            {side: peer, "msg_tag": tag, "msg_length": size} for peer, tag, size in zip(*columns, strict=True)
        ]
    types = np.minimum(what, 2).astype(np.int8)
    frame = pd.DataFrame(
        {
            "Timestamp (ns)": times + parts * 1e-3,
            "Event Type": pd.Categorical.from_codes(types, pd.Index(["Enter", "Leave", "Instant"])),
            "Name": pd.Categorical(names[number]),
            "Process": pd.Categorical(rank),
            "Attributes": attributes,
        }
    )
    frame.attrs.update(events.facts())
    return frame


def write_pipit(path: Path, events: Events) -> list[Path]:
    """Write begins and ends as the CSV that ``pipit.Trace.from_csv`` reads.

    It keeps no messages: its columns are time, kind, name and rank. Nor has it a place for what was left out.
    """
    frame = pipit_frame(events)
    frame = frame[frame["Event Type"] != "Instant"].drop(columns="Attributes")
    with open_out(path) as file:
        file.write(frame.to_csv(index=False).encode())
    return [path]


def hatchet_frame(report: Report) -> Any:
    """Return the profile as Hatchet's ``GraphFrame``: its rows are call paths and ranks.

    Columns are the metrics of the report: ``time`` and the others are exclusive, ``time (inc)`` and its like
    inclusive.
    """
    try:
        from hatchet import GraphFrame
        from hatchet.frame import Frame
        from hatchet.graph import Graph
        from hatchet.node import Node
    except ImportError as error:
        raise DataError(
            f"Hatchet's frame needs Hatchet ({error}): pip install llnl-hatchet", code="missing-package"
        ) from None
    import pandas as pd

    nodes: list[Any] = []
    for path in report.paths:
        above = nodes[path.above] if path.above >= 0 else None
        kind = "region" if path.place == "" else "function"
        node = Node(Frame({"name": path.label, "type": kind}), above)
        if above is not None:
            above.add_child(node)
        nodes.append(node)
    graph = Graph(nodes[:1])
    graph.enumerate_traverse()
    ranks = report.ranks
    index = pd.MultiIndex.from_product([nodes, range(ranks)], names=["node", "rank"])
    columns: dict[str, object] = {"name": np.repeat([path.label for path in report.paths], ranks)}
    for metric in report.metrics:
        columns[metric.name] = report.exclusive(metric.name).ravel()
        columns[f"{metric.name} (inc)"] = report.inclusive(metric.name).ravel()
    frame = pd.DataFrame(columns, index=index).sort_index()
    exclusive = [metric.name for metric in report.metrics]
    return GraphFrame(graph, frame, exclusive, [f"{name} (inc)" for name in exclusive], default_metric="time")


# Paje's text, which ViTE and PajeNG open: containers, states, links, variables.

#: number, name and fields of each kind of event
_HEADER = [
    (0, "PajeDefineContainerType", "Alias string,Type string,Name string"),
    (1, "PajeDefineStateType", "Alias string,Type string,Name string"),
    (
        2,
        "PajeDefineLinkType",
        "Alias string,Type string,StartContainerType string,EndContainerType string,Name string",
    ),
    (3, "PajeDefineEntityValue", "Alias string,Type string,Name string,Color color"),
    (4, "PajeCreateContainer", "Time date,Alias string,Type string,Container string,Name string"),
    (5, "PajeDestroyContainer", "Time date,Type string,Name string"),
    (6, "PajePushState", "Time date,Type string,Container string,Value string"),
    (7, "PajePopState", "Time date,Type string,Container string"),
    (
        8,
        "PajeStartLink",
        "Time date,Type string,Container string,StartContainer string,Value string,Key string",
    ),
    (9, "PajeEndLink", "Time date,Type string,Container string,EndContainer string,Value string,Key string"),
]

_COLORS = {
    PHASE: "0.90 0.90 0.90",
    CALL: "0.84 0.37 0.00",
    COMPUTATION: "0.34 0.71 0.91",
    WAIT: "0.29 0.06 0.37",
}

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
    what = np.concatenate([np.where(ends, _POP, _PUSH), np.full(count, _SEND), np.full(count, _RECEIVE)])
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


# Cube's file (.cubex): a profile that Cube's viewer, pycubexr and Extra-P read.

_UNITS = {"s": "sec", "B": "bytes", "": "occ"}


def write_cube(path: Path, report: Report) -> list[Path]:
    """Write a report as a Cube: metrics, call tree, and machine, hosts and ranks as its system.

    Values are exclusive in the call tree; a metric holds its parts, as in Cube. Derived metrics are left out:
    what they are made of is there. A report whose sums are below zero, a difference, is written as well.

    References
    ----------
    .. [1] P. Saviankou, M. Knobloch, A. Visser, B. Mohr: Cube v4: from performance report explorer to
       performance analysis tool. Procedia Computer Science 51, 2015. doi:10.1016/j.procs.2015.05.320
    """
    plain = [metric for metric in report.metrics if metric.expression is None]
    number = {metric.name: at for at, metric in enumerate(plain)}
    rows = len(report.paths)
    index = b"CUBEX.INDEX" + struct.pack("<ihBi", 1, 0, 1, rows) + np.arange(rows, dtype="<i4").tobytes()
    with open_out(path) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        _add(archive, "anchor.xml", _anchor(report, plain, number))
        for metric in plain:
            values = np.ascontiguousarray(report.values[metric.name], "<f8")
            _add(archive, f"{number[metric.name]}.data", b"CUBEX.DATA" + values.tobytes())
            _add(archive, f"{number[metric.name]}.index", index)
    return [path]


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a member; it has no date, so that the same report is the same file."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    archive.addfile(member, io.BytesIO(data))


def _anchor(report: Report, plain: list[Any], number: dict[str, int]) -> bytes:
    root = ElementTree.Element("cube", version="4.4")
    facts = {"Creator": "labkit", "Title": report.title, "makespan_s": repr(report.makespan_s)}
    for key, value in facts.items():
        ElementTree.SubElement(root, "attr", key=key, value=value)
    ElementTree.SubElement(ElementTree.SubElement(root, "doc"), "mirrors")
    metrics = ElementTree.SubElement(root, "metrics", title="Metric tree")
    known = {"": metrics}
    for metric in plain:
        facts = {
            "id": str(number[metric.name]),
            "type": "EXCLUSIVE",
            "convertible": "true",
            "cacheable": "true",
        }
        own = ElementTree.SubElement(known[metric.above], "metric", facts)
        known[metric.name] = own
        _texts(
            own,
            disp_name=metric.label,
            uniq_name=metric.name,
            dtype="DOUBLE",
            uom=_UNITS.get(metric.unit, metric.unit),
            val="",
            url="",
            descr=metric.meaning,
        )
    _program(report, ElementTree.SubElement(root, "program", title="Call tree"))
    _system(report, ElementTree.SubElement(root, "system", title="System tree"))
    text: bytes = ElementTree.tostring(root, encoding="utf-8")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + text


def _texts(above: ElementTree.Element, **texts: str) -> None:
    for name, text in texts.items():
        ElementTree.SubElement(above, name).text = _clean(text)


def _clean(text: str) -> str:
    """Leave out what XML cannot hold."""
    return "".join(
        letter for letter in text if letter in "\t\n" or " " <= letter < "\ud800" or letter > "\udfff"
    )


def _program(report: Report, program: ElementTree.Element) -> None:
    """Write a region for each name, and the call tree."""
    regions: dict[tuple[str, str], int] = {}
    calls: dict[tuple[str, str], bool] = {}
    for path in report.paths:
        regions.setdefault((path.label, path.place), len(regions))
        calls[path.label, path.place] = bool(path.call)
    for (label, place), at in regions.items():
        file, _, line = place.rsplit(", ", 1)[-1].rpartition(":")
        begin = line if line.isdigit() else "-1"
        region = ElementTree.SubElement(
            program, "region", id=str(at), mod=_clean(file), begin=begin, end=begin
        )
        paradigm, role = ("mpi", "function") if calls[label, place] else ("user", "region")
        _texts(region, name=label, mangled_name=label, paradigm=paradigm, role=role, url="", descr=place)
    nodes: list[ElementTree.Element] = []
    for row, path in enumerate(report.paths):
        above = nodes[path.above] if path.above >= 0 else program
        callee = str(regions[path.label, path.place])
        nodes.append(ElementTree.SubElement(above, "cnode", id=str(row), calleeId=callee))


def _system(report: Report, system: ElementTree.Element) -> None:
    """Write the machine, its hosts, and on each the ranks; without hosts all ranks are on one."""
    machine = ElementTree.SubElement(system, "systemtreenode", {"Id": "0", "class": "machine"})
    _texts(machine, name=getattr(report.machine, "name", "") or "machine", **{"class": "machine"})
    hosts = report.hosts or (0,) * report.ranks
    known: dict[int, ElementTree.Element] = {}
    for host in hosts:
        if host not in known:
            node = ElementTree.SubElement(
                machine, "systemtreenode", {"Id": str(len(known) + 1), "class": "node"}
            )
            _texts(node, name=f"host {host}" if report.hosts else "hosts", **{"class": "node"})
            known[host] = node
    for rank, host in enumerate(hosts):
        group = ElementTree.SubElement(known[host], "locationgroup", Id=str(rank))
        _texts(group, name=f"rank {rank}", rank=str(rank), type="process")
        location = ElementTree.SubElement(group, "location", Id=str(rank))
        _texts(location, name=f"rank {rank}", rank="0", type="thread")


FORMATS = {
    "perfetto": Format((".json",), write_perfetto, False, True, "ui.perfetto.dev, chrome://tracing"),
    "paje": Format((".paje", ".trace"), write_paje, False, True, "ViTE, PajeNG"),
    "paraver": Format((".prv",), write_paraver, False, False, "Paraver"),
    "cube": Format((".cubex",), write_cube, True, False, "Cube, Extra-P"),
    "otf2": Format((".otf2",), write_otf2, False, False, "Vampir, Scalasca, Pipit"),
    "pipit": Format((".csv",), write_pipit, False, True, "Pipit"),
}


def check_export(path: str | os.PathLike[str], form: str | None = None) -> tuple[Path, Format]:
    """Read what a file's name says, and refuse one that cannot be written.

    Raises DataError: No such format or ending, or a folder that is not there.
    """
    target = path_of(path)
    if form is not None and (not isinstance(form, str) or form not in FORMATS):
        raise DataError(
            f"no format is called {form!r}{nearest(str(form), FORMATS)}; there are {', '.join(FORMATS)}",
            code="unknown-name",
        )
    name = target.name.lower()
    packed = name.endswith(".gz")
    ending = Path(name.removesuffix(".gz") if packed else name).suffix
    found = (
        FORMATS[form]
        if form is not None
        else next((one for one in FORMATS.values() if ending in one.endings), None)
    )
    if found is None:
        known = ", ".join(f"{one.endings[0]} ({key})" for key, one in FORMATS.items())
        raise DataError(
            f"the ending of the file's name gives the format: {known}; got {str(target)!r}",
            code="unknown-format",
        )
    if packed and not found.may_be_packed:
        raise DataError(
            f"a file {found.endings[0]} is not packed; leave out .gz in {str(target)!r}",
            code="unknown-format",
        )
    if form == "paraver" and ending != ".prv":
        raise DataError(
            f"Paraver's file ends in .prv, next to its .pcf and .row; got {str(target)!r}",
            code="unknown-format",
        )
    parent = target.absolute().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        what = "cannot be written to" if parent.is_dir() else "does not exist"
        raise DataError(
            f"{str(target)!r} cannot be written: the folder {str(parent)!r} {what}", code="unwritable-file"
        )
    if found.write is write_otf2:
        check_archive(target)
    elif target.is_dir():
        raise DataError(f"{str(target)!r} is a folder; give the name of a file", code="wrong-kind-of-file")
    return target, found


def export(
    run: RecordedRun, path: str | os.PathLike[str], form: str | None = None, limit: int = LIMIT
) -> list[Path]:
    """Do `Run.export`."""
    target, found = check_export(path, form)
    events = None if found.is_profile else events_of(run, limit)
    what = report_of(run) if events is None else events
    try:
        files = _written_whole(found, target, what)
    except OSError as error:
        raise DataError(
            f"{str(target)!r} cannot be written: {error.strerror or error}", code="unwritable-file"
        ) from None
    if events is not None and (said := events.said()):
        print(f"labkit: {target} is {said}", file=sys.stderr)
    return files


def _written_whole(form: Format, target: Path, what: object) -> list[Path]:
    """Write files and move them to their place: what fails leaves no half file, and the one of before."""
    if target.exists() and not target.is_file() and not target.is_dir():  # a pipe, say
        return form.write(target, what)
    place = target.resolve()
    folder = place.parent
    part = Path(tempfile.mkdtemp(prefix=".labkit-", dir=folder))
    try:
        files = form.write(part / place.name, what)
        for one in part.iterdir():
            if (folder / one.name).is_dir():
                shutil.rmtree(folder / one.name)
            os.replace(one, folder / one.name)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    base = folder if target.is_symlink() else target.parent
    return [base / one.relative_to(part) for one in files]


def frame_of(run: RecordedRun, form: str, limit: int = LIMIT) -> Any:
    """Do `Run.frame`."""
    if form == "hatchet":
        return hatchet_frame(report_of(run))
    if form == "pipit":
        events = events_of(run, limit)
        if said := events.said():
            print(f"labkit: the frame is {said}", file=sys.stderr)
        return pipit_frame(events)
    raise DataError(f"frames are those of 'pipit' and 'hatchet'; got {form!r}", code="unknown-name")
