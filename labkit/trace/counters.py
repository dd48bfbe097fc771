"""Counters of the host for real ranks: which there are, what they are called, what is said of those refused.

They are Linux's perf events, of the thread that runs the program. What a machine does not give, as the
hardware's events inside most virtual machines, is said in a sentence and has no column.

References
----------
.. [1] perf_event_open(2), Linux man-pages.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.errors import MachineError, nearest
from labkit.trace.trace import NO_PHASE
from labkit.trace.waiting.kinds import COMPUTATION, NOT_BEGUN

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import Trace

__all__ = [
    "EVENTS",
    "SUMS",
    "Columns",
    "Event",
    "checked_counters",
    "column_of",
    "counted",
    "in_units",
    "is_counted",
    "joined_columns",
    "not_begun",
    "refused",
    "summary_frame",
    "summed_columns",
]


_HARDWARE, _SOFTWARE, _CACHE = 0, 1, 3

_MISSED = 1 << 16

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")

#: what happens in the system's own code only
_KERNEL_ONLY = ("context-switches", "cpu-migrations")


class Event(NamedTuple):
    """An event that can be counted.

    `kind`, `config`: As perf_event_open takes them.
    `unit`: ``"s"`` of times, which the system counts in nanoseconds; else "".
    """

    kind: int
    config: int
    meaning: str
    unit: str = ""


#: by the names that ``perf list`` has for them
EVENTS: Mapping[str, Event] = {
    "task-clock": Event(_SOFTWARE, 1, "time that the rank's thread ran on a core", "s"),
    "page-faults": Event(_SOFTWARE, 2, "pages that were not there when they were used"),
    "context-switches": Event(_SOFTWARE, 3, "the number of times the thread gave up its core, or lost it"),
    "cpu-migrations": Event(_SOFTWARE, 4, "the number of times the thread continued on another core"),
    "minor-faults": Event(_SOFTWARE, 5, "page faults that needed no disk"),
    "major-faults": Event(_SOFTWARE, 6, "page faults that were read from a disk"),
    "cycles": Event(_HARDWARE, 0, "cycles of the core"),
    "instructions": Event(_HARDWARE, 1, "instructions that were carried out"),
    "cache-references": Event(_HARDWARE, 2, "accesses to the last cache"),
    "cache-misses": Event(_HARDWARE, 3, "accesses that the last cache did not have"),
    "branches": Event(_HARDWARE, 4, "branches that were carried out"),
    "branch-misses": Event(_HARDWARE, 5, "branches that were guessed wrong"),
    "stalled-cycles-frontend": Event(_HARDWARE, 7, "cycles without an instruction to begin"),
    "stalled-cycles-backend": Event(_HARDWARE, 8, "cycles in which none could be ended"),
    "ref-cycles": Event(_HARDWARE, 9, "cycles at the core's nominal frequency"),
    "L1-dcache-load-misses": Event(_CACHE, _MISSED | 0, "loads that the first cache did not have"),
    "LLC-load-misses": Event(_CACHE, _MISSED | 2, "loads that the last cache did not have"),
    "dTLB-load-misses": Event(_CACHE, _MISSED | 3, "loads whose page had to be looked up"),
}


def checked_counters(given: Any) -> tuple[str, ...]:
    """Return the names of the counters that a run is asked for.

    Examples
    --------
    >>> checked_counters("page-faults, instructions")
    ('page-faults', 'instructions')
    """
    words: Iterable[Any] = given.split(",") if isinstance(given, str) else given or ()
    names = tuple(dict.fromkeys(str(word).strip() for word in words))
    for name in names:
        if name not in EVENTS:
            raise MachineError(
                f"no counter is called {name!r}{nearest(name, EVENTS)}; there are {', '.join(EVENTS)}",
                code="unknown-name",
            )
    return names


def column_of(name: str) -> str:
    """Return what the column of a counter is called, which expressions can name.

    Examples
    --------
    >>> column_of("page-faults"), column_of("task-clock")
    ('page_faults', 'task_clock_s')
    """
    return name.replace("-", "_") + ("_s" if EVENTS[name].unit == "s" else "")


def in_units(name: str, value: Any) -> Any:
    """Return a counter's values in the unit of its column."""
    return value * 1e-9 if EVENTS[name].unit == "s" else value


def is_counted(name: str, state: int) -> bool:
    """Whether a counter has values, by what `labkit._kernels.RankLog.count` says of it.

    Examples
    --------
    >>> is_counted("page-faults", 1), is_counted("context-switches", 1), is_counted("cycles", -2)
    (True, False, False)
    """
    return state == 0 or (state > 0 and name not in _KERNEL_ONLY)


# The messages of a recorded run, counted for each rank and each of its phases.

Values = tuple[int, ...]


def counted(trace: Trace, phases: pd.DataFrame) -> list[dict[str, object]]:
    """Return a row for each rank (phase ``""``) and for each phase that it was in.

    `trace`: Of a run on any machine.
    `phases`: `Run.phases` of it.
    Returns: rank, phase, messages and bytes sent, received and received_bytes, rounds: see
        `labkit.Run.counts`. Of a real run whose program calls collectives these are p2p_messages, p2p_bytes,
        ... and collectives (the rank's calls), collective_bytes (what it gave to them): which messages the
        MPI library makes of a collective is not seen.
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
    columns: Sequence[object] = [
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


def refused(names: Sequence[str], states: Sequence[int], share: float = 1.0) -> list[str]:
    """Return as sentences which counters the machine does not give, or not wholly, and why.

    Examples
    --------
    >>> refused(["page-faults", "cycles"], [0, -errno.ENOENT])
    ['cycles: not counted, this processor (or the virtual machine it is part of) does not have it']
    """
    reasons: dict[str, list[str]] = {}
    for name, state in zip(names, states, strict=True):
        if state < 0:
            reasons.setdefault(f"not counted, {_why(-state)}", []).append(name)
        elif not is_counted(name, state):
            text = f"not counted, {_forbidden()} shows a program's own code only, in which it never happens"
            reasons.setdefault(text, []).append(name)
        elif state:
            text = f"in the program's own code only, {_forbidden()} hides the system's"
            reasons.setdefault(text, []).append(name)
    if share < 1.0 and any(state >= 0 for state in states):
        text = f"counted in {share:.0%} of the time, in turn with others, and not scaled up"
        counted = zip(names, states, strict=True)
        reasons[text] = [name for name, state in counted if is_counted(name, state)]
    return [f"{', '.join(own)}: {text}" for text, own in reasons.items()]


def _why(number: int) -> str:
    if number in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "this processor (or the virtual machine it is part of) does not have it"
    if number == errno.ENOSYS:
        return "this system has no perf events"
    if number in (errno.EACCES, errno.EPERM):
        return f"{_forbidden()} forbids it; an administrator can set kernel.perf_event_paranoid to 1"
    if number == errno.EINVAL:
        return "the processor cannot count it together with the others; ask for fewer counters"
    return f"the system reports {errno.errorcode.get(number, number)}"


def _forbidden() -> str:
    try:
        return f"perf_event_paranoid = {_PARANOID.read_text().strip()} (or a container's filter of calls)"
    except OSError:
        return "the system (or a container's filter of calls)"


# The summary of a run: each rank's time, visits and messages by call path, summed up while the program.


#: what is summed up, in the order of a row's values
SUMS = ("visits", "spent_s", "messages", "bytes", "empty_messages", "collective_bytes", "empty_collectives")
_KEYS = ("rank", "phase", "name", "call", "place")

#: rank, phase (``"solve > exchange"``), name (its innermost phase), call, place, `SUMS`, counters by names
Columns = dict[str, NDArray[Any]]


def gives_nothing(call: str, n_bytes: int) -> bool:
    """Whether a rank gives nothing to a collective call: it only synchronizes.

    An object is never without bytes, but it is its root's alone.

    Examples
    --------
    >>> gives_nothing("Barrier", 0), gives_nothing("Bcast", 0), gives_nothing("Bcast", 8)
    (True, True, False)
    >>> gives_nothing("barrier", 0), gives_nothing("bcast", 0)
    (True, False)
    """
    return n_bytes == 0 and (not call[:1].islower() or call == "barrier")


def summed_columns(
    sums: Mapping[str, Any], calls: Sequence[str], places: Sequence[str], counters: Sequence[str] = ()
) -> Columns:
    """Return the sums of `labkit._kernels` with names in the place of numbers.

    `sums`: Of `labkit._kernels.HubSums.columns` or `labkit._kernels.RankLog.summed_columns`.
    `calls`, `places`: By their numbers.
    `counters`: Of the host, in the order in which they are summed up.
    """
    paths = [
        (
            text or NO_PHASE,
            name or NO_PHASE,
            calls[call] if call >= 0 else COMPUTATION,
            places[place] if place >= 0 else "",
        )
        for text, name, call, place in sums["paths"]
    ]
    path = sums["path"]
    columns: Columns = {"rank": sums["rank"]}
    for name, texts in zip(_KEYS[1:], zip(*paths, strict=True), strict=True):
        columns[name] = np.array(texts, object)[path]
    columns |= {name: sums[name] for name in SUMS}
    is_empty = np.array([gives_nothing(call, 0) for _, _, call, _ in paths], bool)
    columns["empty_collectives"] = columns["empty_collectives"] * is_empty[path]
    return columns | dict(zip(counters, sums["counted"], strict=True))


def joined_columns(parts: Sequence[Columns]) -> Columns:
    """Return the rows of all parts; NaN for counters that some of them lack."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: np.concatenate([part.get(name, np.full(len(part["rank"]), np.nan)) for part in parts])
        for name in names
    }


def summary_frame(columns: Columns, counts: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the sums of all ranks as the table that `labkit.Run.profile` gives.

    `columns`: Of `summed_columns`.
    `counts`: `labkit.Run.counts`: with memory_bytes, the table has that too.
    Returns: By rank and path: rank, path, phase, call, place, visits (of computation: how often the phase, or
        the program, was entered), spent_s (wait states included: only events separate them), messages,
        bytes, empty_messages, collective_bytes and empty_collectives, as in
        `labkit.trace.waiting.profile.profile_of`; but a collective counts as empty for a rank that gives
        nothing to it, whatever the others give. With ``counters=`` a column for each that the hosts have, NaN
        on those that do not.
    """
    import pandas as pd

    counters = [name for name in EVENTS if name in columns and not np.isnan(columns[name]).all()]
    table = pd.DataFrame({name: columns[name] for name in (*_KEYS, *SUMS, *counters)})
    table.loc[table["call"] == NOT_BEGUN, counters] = 0
    table = table.groupby(list(_KEYS), sort=False, as_index=False)[[*SUMS, *counters]].sum(min_count=1)
    table["path"] = table.groupby(list(_KEYS[1:]), sort=False).ngroup()
    table = table.sort_values(["rank", "path"], kind="stable", ignore_index=True)
    if counts is not None and "memory_bytes" in counts:
        held = counts.set_index(["rank", "phase"])["memory_bytes"]
        names = table["name"].replace(NO_PHASE, "")
        table["memory_bytes"] = held.reindex(pd.MultiIndex.from_arrays([table["rank"], names])).to_numpy()
    held_too = ["memory_bytes"] if "memory_bytes" in table else []
    for name in counters:
        held_too.append(column_of(name))
        values = table.pop(name)
        table[column_of(name)] = in_units(name, values if values.hasnans else values.astype(int))
    return table[["rank", "path", "phase", "call", "place", *SUMS, *held_too]]


def not_begun(rank: int, seconds: float) -> Columns:
    """Return the time before a real rank began, as a row."""
    row = {"phase": NO_PHASE, "name": NO_PHASE, "call": NOT_BEGUN, "place": ""}
    zero: Columns = {name: np.zeros(1, np.int64) for name in SUMS}
    words: Columns = {name: np.array([text], object) for name, text in row.items()}
    return {"rank": np.array([rank]), **words, **zero, "spent_s": np.array([seconds])}
