"""A recorded run as other tools see it: slices of the ranks' time, one in the other, and messages.

Phases, calls, computations and wait states of a rank lie in each other as brackets do; times are whole
nanoseconds, which is what most formats keep. A run of more events than wanted keeps those that last longest.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.text.units import format_seconds
from labkit.trace.trace import NOT_SAID, RecordedRun, lacks_trace, phase_numbers
from labkit.trace.waiting.analysis import find_waiting
from labkit.trace.waiting.windows import calls_at, sent_in

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CALL", "COMPUTATION", "KINDS", "LIMIT", "PHASE", "WAIT", "Events", "events_of"]


Ints = NDArray[np.int64]

#: kinds of slices, from the outside to the inside
PHASE, CALL, COMPUTATION, WAIT = range(4)
_NONE = -1


def nested(slices: dict[str, Ints]) -> tuple[dict[str, Ints], int]:
    """Put slices in order, by rank, each before those in it, and say how deep they lie.

    A call that takes no time lies in the phase that it names: the last before that ends at this instant, or
    the first of those that begin at it. Calls of a rank at one instant keep their order.

    `slices`: rank, kind, name, begin_ns, end_ns, row, phase and around, an entry each: of a call the name of
        its innermost phase by number, -1 for none, `NOT_SAID`; of a phase how many are around it (then those
        of a rank come in the order in which it entered them, where they begin at the same time), `NOT_SAID`.
    Returns: Without phase and around; with depth, and no slice ends after the one around it: how many did.
    """
    # Calls that take no time come before what begins just then, behind the phases that do.
    kind, begin, end = slices["kind"], slices["begin_ns"], slices["end_ns"]
    takes_time = (kind != PHASE) & (end > begin) | (kind == WAIT)
    inside = np.where(kind == PHASE, 0, 1 + takes_time)
    # Else phases are noted when they end: of two with equal times the later is the outer one.
    is_told = slices["around"] != NOT_SAID
    noted = np.where((kind == PHASE) & (end > begin) & ~is_told, -1, 1) * np.arange(len(kind))
    order = np.lexsort((noted, kind, np.where(is_told, 0, -end), inside, begin, slices["rank"]))
    slices = {name: column[order] for name, column in slices.items()}
    places, around = _places(slices)
    order = np.argsort(places, kind="stable")
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    around = np.where(around >= 0, new[around], around)[order]
    slices = {name: column[order] for name, column in slices.items() if name not in ("phase", "around")}
    slices["depth"], slices["end_ns"], cut = _depths(slices, around)
    return slices, cut


def _places(slices: dict[str, Ints]) -> tuple[Ints, Ints]:
    """Return where each slice stands; and around each phase or call without time: `_NONE`, `NOT_SAID`."""
    kind, begin_ns, end_ns = slices["kind"], slices["begin_ns"], slices["end_ns"]
    places, around = 2 * np.arange(len(kind)), np.full(len(kind), NOT_SAID)
    rows = np.flatnonzero((kind == PHASE) | (kind == CALL) & (begin_ns == end_ns))
    names = np.where(kind == PHASE, slices["name"], slices["phase"])
    told = (slices["rank"], begin_ns, end_ns, kind, names, slices["around"])
    columns = (column[rows].tolist() for column in told)
    stack: list[tuple[int, int, int]] = []  # end, name, slice
    last = -1
    moments = groupby(zip(*columns, rows.tolist(), strict=True), key=lambda one: (one[0], one[1]))
    for (rank, now), group in moments:
        here = list(group)
        if rank != last:
            stack.clear()
            last = rank
        _leave(stack, now - 1, [])
        # What is innermost at this instant, one after the other: name, slice, the place behind.
        states = [(*_innermost(stack), 2 * here[0][-1] - 1)]
        calls = []
        for _, _, end, what, name, depth, at in here:
            if what == CALL:
                calls.append((name, at))
                continue
            # Only what takes no time lies in what ends just then.
            _leave(stack, now, states, max(depth, 0) if end == now else 0)
            if depth != NOT_SAID:
                around[at] = _innermost(stack)[1]
            stack.append((min(end, stack[-1][0]) if stack else end, name, at))
            states.append((name, at, 2 * at + 1))
        _leave(stack, now, states)
        first = 0
        for name, at in calls:
            first = next((i for i in range(first, len(states)) if states[i][0] == name), len(states))
            if first == len(states):  # nor may later ones come before it
                break
            _, around[at], places[at] = states[first]
    return places, around


def _leave(
    stack: list[tuple[int, int, int]], until: int, states: list[tuple[int, int, int]], depth: int = 0
) -> None:
    """Close phases that end until then, down to a number of open ones; add the innermost one after each."""
    while len(stack) > depth and stack[-1][0] <= until:
        stack.pop()
        if states:
            states.append((*_innermost(stack), states[-1][-1]))


def _innermost(stack: list[tuple[int, int, int]]) -> tuple[int, int]:
    """Return name and slice of the innermost phase."""
    return stack[-1][1:] if stack else (_NONE, _NONE)


def _depths(slices: dict[str, Ints], around: Ints) -> tuple[Ints, Ints, int]:
    """Return the depth and the end of each slice, none after that of the one around it."""
    depths, ends, cut = [], [], 0
    stack: list[tuple[int, int, int, int]] = []  # end, begin, kind, slice
    last = -1
    columns = (slices[name].tolist() for name in ("rank", "kind", "begin_ns", "end_ns"))
    for at, (rank, kind, begin, end, phase) in enumerate(zip(*columns, around.tolist(), strict=True)):
        if rank != last:
            stack.clear()
            last = rank
        while stack and stack[-1][0] <= begin:
            over, begun, outer, number = stack[-1]
            is_in = begun == begin == end and outer < kind if phase == NOT_SAID else number == phase
            if over == begin and is_in:
                break
            stack.pop()
        if stack and stack[-1][0] < end:
            end = stack[-1][0]
            cut += 1
        depths.append(len(stack))
        ends.append(end)
        stack.append((end, begin, kind, at))
    return np.array(depths, np.int64), np.array(ends, np.int64), cut


#: events (begin and end of a slice, send and receipt of a message: one each) that a file has at most
LIMIT = 1_000_000
#: names of the kinds of slices, from the outside to the inside
KINDS = ("phase", "call", "computation", "wait")


@dataclass(frozen=True)
class Events:
    """Slices and messages of a run.

    `names`: Of slices, by number.
    `rank`, `kind`, `name`, `begin_ns`, `end_ns`, `row`: By rank; a slice stands before those in it. Row is
        that of `Trace.calls` of a call, of ``Waiting.waits`` of a wait, else -1.
    `depth`: How many slices a slice lies in.
    `source`, `destination`, `tag`, `bytes`, `sent_ns`, `received_ns`: In order of receipt.
    `sent_in`, `received_in`: Rows of `Trace.calls` in which it was sent and received; -1: none.
    `message`: Row of `Trace.messages`.
    `waits`: `labkit.trace.waiting.Waiting.waits` of the run.
    `all_events`: How many events the run has.
    `longest_left_ns`: How long the longest of what was left out lasted; -1: nothing was.
    `cut`: Slices that ended after the one they lie in, and here end with it.
    """

    run: RecordedRun
    names: list[str]
    rank: Ints
    kind: Ints
    name: Ints
    begin_ns: Ints
    end_ns: Ints
    row: Ints
    depth: Ints
    source: Ints
    destination: Ints
    tag: Ints
    bytes: Ints
    sent_ns: Ints
    received_ns: Ints
    sent_in: Ints
    received_in: Ints
    message: Ints
    waits: Any
    all_events: int
    longest_left_ns: int
    cut: int

    def __len__(self) -> int:
        return 2 * (len(self.rank) + len(self.source))

    def said(self) -> str:
        """Return as text what was left out; empty where nothing was."""
        if self.longest_left_ns < 0:
            return ""
        return (
            f"down-sampled: of {self.all_events:,} events the {len(self):,} of what lasts longest are kept; "
            f"nothing that was left out lasts longer than {format_seconds(self.longest_left_ns * 1e-9)}"
        )

    def facts(self) -> dict[str, object]:
        """Return what a file says of itself, by name."""
        run = self.run
        return {
            "made by": "labkit",
            "program": run.program,
            "machine": run.on,
            "ranks": run.ranks,
            "network model": run.model or "none: a real machine",
            "makespan_s": run.makespan_s,
            "events of the run": self.all_events,
            "events here": len(self),
            "sampling": self.said() or "none: every event is here",
            "slices cut at the one around": self.cut,
        }

    def sequence(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return all that happens in order of time: when in ns, picoseconds to add, what, which, rank.

        What is 0 where a slice begins, 1 where it ends, 2 where a message is sent, 3 where it is received;
        which its slice or message. A message is sent and received inside its call, also where that begins or
        ends just then. Events of a rank within a nanosecond get a picosecond each (up to 999):
        readers that sort by time, and not stably, then keep their order.
        """
        when, which, ends = self.moves()
        count = len(self.source)
        numbers = np.arange(count)
        times = np.concatenate([when, self.sent_ns, np.maximum(self.received_ns, self.sent_ns)])
        what = np.concatenate([ends.astype(np.int64), np.full(count, 2), np.full(count, 3)])
        which = np.concatenate([which, numbers, numbers])
        rank = np.concatenate([self.rank[which[: len(when)]], self.source, self.destination])
        order = np.lexsort((self._places(which[: len(when)], ends), times))
        times, what, which, rank = np.maximum(times[order], 0), what[order], which[order], rank[order]
        by_rank = np.lexsort((np.arange(len(times)), times, rank))
        same = np.zeros(len(times), np.int64)
        if len(times):
            fresh = np.ones(len(times), bool)
            fresh[1:] = (np.diff(times[by_rank]) != 0) | (np.diff(rank[by_rank]) != 0)
            place = np.arange(len(times))
            same[by_rank] = place - np.maximum.accumulate(np.where(fresh, place, 0))
        return times, np.minimum(same, 999), what, which, rank

    def _places(self, which: Ints, ends: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return places among what is at the same time: slices unchanged, messages in their calls."""
        own = np.arange(len(which), dtype=np.float64)
        last = float(len(which))
        begun, over = np.empty(len(self.rank)), np.empty(len(self.rank))
        begun[which[~ends]], over[which[ends]] = own[~ends], own[ends]
        slices = np.full(
            int(max(self.row.max(initial=-1), self.sent_in.max(initial=-1), self.received_in.max(initial=-1)))
            + 2,
            -1,
        )
        calls = np.flatnonzero(self.kind == CALL)
        slices[self.row[calls]] = calls
        places = [own]
        for call, when in ((self.sent_in, self.sent_ns), (self.received_in, self.received_ns)):
            at = np.where(call >= 0, slices[call], -1)
            if not len(self.rank):
                places.append(np.full(len(at), last))
                continue
            is_first = (at >= 0) & (self.begin_ns[at] == when)
            is_last = (at >= 0) & (self.end_ns[at] == when)
            places.append(np.where(is_first, begun[at] + 0.5, np.where(is_last, over[at] - 0.5, last)))
        return np.concatenate(places)

    def moves(self) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        """Return the begins and ends of all slices in order of time: time, slice, whether it ends.

        Those of a rank follow each other as brackets do, also where they are at the same time.
        """
        count = len(self.rank)
        order = np.empty(2 * count, np.int64)  # slice, or ~slice where it ends
        place = 0
        open_slices: list[int] = []
        last = -1
        for at, (rank, depth) in enumerate(zip(self.rank.tolist(), self.depth.tolist(), strict=True)):
            down_to = depth if rank == last else 0
            while len(open_slices) > down_to:
                order[place] = ~open_slices.pop()
                place += 1
            order[place] = at
            place += 1
            open_slices.append(at)
            last = rank
        while open_slices:
            order[place] = ~open_slices.pop()
            place += 1
        ends = order < 0
        which = np.where(ends, ~order, order)
        when = np.where(ends, self.end_ns[which], self.begin_ns[which])
        by_time = np.argsort(when, kind="stable")
        return when[by_time], which[by_time], ends[by_time]


def events_of(run: RecordedRun, limit: int = LIMIT) -> Events:
    """Take a run apart into what other tools show.

    `run`: Recorded with ``trace=True``, on any machine.
    `limit`: Events at most; of more those are kept that last longest.
    Raises DataError: The run has no trace, or the limit is below 2.
    """
    if run.trace is None:
        also = "" if run.summary is None else " except as .cubex"
        raise lacks_trace(run, f"{run.program} on {run.on} cannot be exported{also}")
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 2:
        raise DataError(f"the limit is a number of events, at least 2; got {limit!r}", code="out-of-range")
    waits = find_waiting(run).waits
    names, slices = _slices(run, waits)
    messages = _messages(run)
    total = 2 * (len(slices["rank"]) + len(messages["source"]))
    left = -1
    if total > limit:
        slices, messages, left = _longest(slices, messages, int(limit) // 2)
    slices, cut = nested(slices)
    return Events(
        run, names, **slices, **messages, waits=waits, all_events=total, longest_left_ns=left, cut=cut
    )


def _slices(run: RecordedRun, waits: pd.DataFrame) -> tuple[list[str], dict[str, Ints]]:
    """Return the names and the columns of all slices of a run, in no order."""
    import pandas as pd

    trace = run.trace
    names: list[str] = []
    parts: list[list[Ints]] = []

    def add(
        table: Any, kind: int, words: Any, rows: bool, phase: Any = NOT_SAID, around: Any = NOT_SAID
    ) -> None:
        if table is None or not len(table):
            return
        codes, known = pd.factorize(words)
        begin, end = (table[name].to_numpy(np.float64) for name in ("begin_s", "end_s"))
        real = np.isfinite(begin) & np.isfinite(end)
        row = np.arange(len(table)) if rows else np.full(len(table), -1)
        columns = (
            table["rank"].to_numpy(np.int64),
            np.full(len(table), kind),
            codes + len(names),
            _ns(np.where(real, begin, 0)),
            _ns(np.where(real, np.maximum(end, begin), 0)),
            row,
            np.broadcast_to(phase, len(table)),
            np.broadcast_to(around, len(table)),
        )
        parts.append([np.asarray(column, np.int64)[real] for column in columns])
        names.extend(str(one) for one in known)

    depth: object = run.phases.get("depth", NOT_SAID)
    add(run.phases, PHASE, run.phases["phase"], False, around=depth)
    if trace.calls is not None:
        add(trace.calls, CALL, trace.calls["call"], True, phase_numbers(trace.calls, names))
    add(trace.computations, COMPUTATION, np.full(len(trace.computations), "computation", object), False)
    add(waits, WAIT, waits["state"].astype(str), True)
    keys = ("rank", "kind", "name", "begin_ns", "end_ns", "row", "phase", "around")
    joined = zip(*parts, strict=True) if parts else ([np.empty(0, np.int64)] for _ in keys)
    return names, _split({key: np.concatenate(columns) for key, columns in zip(keys, joined, strict=True)})


def _split(slices: dict[str, Ints]) -> dict[str, Ints]:
    """Cut what is no phase where phases begin and end: a real run's computations go from call to call."""
    phases = slices["kind"] == PHASE
    if not phases.any():
        return slices
    # Borders of all ranks as one line of numbers: rank after rank, each with room for all its times.
    span = int(max(slices["end_ns"].max(), 0)) + 2
    offset = slices["rank"] * span
    borders = np.unique(np.concatenate([(offset + slices[name])[phases] for name in ("begin_ns", "end_ns")]))
    first = np.searchsorted(borders, offset + slices["begin_ns"], side="right")
    last = np.searchsorted(borders, offset + slices["end_ns"], side="left")
    pieces = np.where(phases, 0, np.maximum(last - first, 0)) + 1
    of = np.repeat(np.arange(len(pieces)), pieces)
    within = np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    found = {name: column[of] for name, column in slices.items()}
    if len(borders) and len(of) > len(pieces):
        at = first[of] + within
        begins, ends = within > 0, within < pieces[of] - 1
        found["begin_ns"] = np.where(begins, borders[np.maximum(at - 1, 0)] - offset[of], found["begin_ns"])
        upto = borders[np.minimum(at, len(borders) - 1)] - offset[of]
        found["end_ns"] = np.where(ends, upto, found["end_ns"])
    return found


def _messages(run: RecordedRun) -> dict[str, Ints]:
    """Return the columns of the messages, by receipt."""
    table = run.trace.messages
    sent, received = (table[name].to_numpy(np.float64) for name in ("send_posted_s", "end_s"))
    rows = np.flatnonzero(np.isfinite(sent) & np.isfinite(received))
    rows = rows[np.argsort(received[rows], kind="stable")]
    found = {name: table[name].to_numpy(np.int64)[rows] for name in ("source", "destination", "tag", "bytes")}
    return {
        **found,
        "sent_ns": _ns(sent[rows]),
        "received_ns": _ns(received[rows]),
        "sent_in": sent_in(run.trace)[rows],
        "received_in": _received_in(run)[rows],
        "message": rows,
    }


def _received_in(run: RecordedRun) -> Ints:
    """Return for each message the row of the call at whose end, or in which, it was received; -1: none."""
    table, calls = run.trace.messages, run.trace.calls
    when_s, rank = table["end_s"].to_numpy(np.float64), table["destination"].to_numpy(np.int64)
    found = calls_at(calls, rank, when_s)
    if calls is None or not len(calls):
        return found
    owner, begin, end = (calls[name].to_numpy() for name in ("rank", "begin_s", "end_s"))
    going = np.flatnonzero(found >= 0)
    while len(going):  # back over calls that begin just then
        row = found[going]
        ends_then = (row > 0) & (begin[row] >= when_s[going]) & (owner[row - 1] == rank[going])
        ends_then &= end[row - 1] >= when_s[going]
        going = going[ends_then]
        found[going] -= 1
    return found


def _ns(seconds: NDArray[np.float64]) -> Ints:
    return np.rint(seconds * 1e9).astype(np.int64)


def _longest(
    slices: dict[str, Ints], messages: dict[str, Ints], most: int
) -> tuple[dict[str, Ints], dict[str, Ints], int]:
    """Keep a limited number of slices and messages: the longest ones; of equal ones the first."""
    lasts = np.concatenate(
        [slices["end_ns"] - slices["begin_ns"], messages["received_ns"] - messages["sent_ns"]]
    )
    order = np.argsort(-lasts, kind="stable")
    kept = np.sort(order[:most])
    border = len(slices["rank"])
    of_slices, of_messages = kept[kept < border], kept[kept >= border] - border
    return (
        {name: column[of_slices] for name, column in slices.items()},
        {name: column[of_messages] for name, column in messages.items()},
        max(int(lasts[order[most]]), 0),
    )
