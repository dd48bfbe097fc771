"""The recorded trace of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labkit.checks import echo
from labkit.errors import DataError
from labkit.text.units import format_bytes, format_count, format_seconds, format_share

if TYPE_CHECKING:
    import pandas as pd

    from labkit.timing.clocks import Clocks

__all__ = [
    "NOT_SAID",
    "NO_PHASE",
    "ConcurrentOperations",
    "Entry",
    "PhaseClock",
    "RecordedRun",
    "Trace",
    "by_entry",
    "lacks_trace",
    "phase_numbers",
    "taken_apart",
]


class RecordedRun(Protocol):
    """What analyses read of a `labkit.result.Run`, which is made above them."""

    program: str
    ranks: int
    on: str
    model: str | None
    makespan_s: float
    phases: pd.DataFrame
    trace: Any
    machine: dict[str, Any]
    collectives: dict[Any, str]
    counts: pd.DataFrame | None
    summary: dict[str, Any] | None
    again: Any


def lacks_trace(run: RecordedRun, what: str) -> DataError:
    """Return the error of an analysis that needs a trace; `what` is not possible without."""
    has = "it has no trace; run it with trace=True"
    if run.summary is not None:
        has = (
            "its summary sums up time, calls and messages, and only a trace has their order; run it "
            "with trace=True, leaving out what run.score() lists"
        )
    return DataError(f"{what}: {has}", code="not-recorded")


# Nonblocking collectives in a recorded run: what went on concurrently, and what it waited for.

#: in the recorded column `message`: a probe; below it, an operation (-2 - its row)
_PROBE = -1


@dataclass(repr=False)
class ConcurrentOperations:
    """What went on concurrently with the ranks.

    `operations`: A row for every nonblocking collective of a rank, in order of their begins: rank, name,
        begin_s, end_s (inf: never over).
    `waits`: The waits of ranks and of operations as they were recorded, in order of their ends: rank,
        operation (row of the one that waited, -1: the rank itself), begin_s, end_s, message (-1: a probe; -2
        - i: the i-th operation was over).
    """

    operations: pd.DataFrame
    waits: pd.DataFrame


def taken_apart(
    messages: dict[str, Any],
    waits: Mapping[str, Any],
    operations: Mapping[str, object],
    sides: Mapping[str, object],
) -> tuple[dict[str, Any], ConcurrentOperations]:
    """Separate what ranks and operations waited for.

    `messages`: Gets the columns send_operation and recv_operation.
    `waits`, `operations`, `sides`: As recorded.
    Returns `waits`: Those of the ranks themselves. While a rank waits for an operation, it waits for what the
        operation waits for: such a wait is cut into those of the operation, so that the picture is that of
        the blocking call; in between the operation is in its own part of calls.
    """
    import pandas as pd

    for side in ("send_operation", "recv_operation"):
        messages[side] = np.full(len(messages["bytes"]), -1, np.int64)
        messages[side][sides["message"]] = sides[side]
    by_operation = np.where(waits["message"] < _PROBE, -2 - waits["message"], -1)
    plain = np.flatnonzero((waits["operation"] < 0) & (by_operation < 0))
    row, piece = _pieces(waits, by_operation)
    begin = np.maximum(waits["begin_s"][row], waits["begin_s"][piece])
    end = np.minimum(waits["end_s"][row], waits["end_s"][piece])
    columns = {
        "rank": (waits["rank"][plain], waits["rank"][row]),
        "begin_s": (waits["begin_s"][plain], begin),
        "end_s": (waits["end_s"][plain], end),
        "message": (waits["message"][plain], waits["message"][piece]),
        "operation": (by_operation[plain], by_operation[row]),
    }
    kept = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(kept["end_s"], kind="stable")
    whole = {name: column[order] for name, column in kept.items()}
    return whole, ConcurrentOperations(pd.DataFrame(operations), pd.DataFrame(waits))


def _pieces(
    waits: Mapping[str, Any], by_operation: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pair ranks' waits for operations with the waits of these operations at that time."""
    waiter, begin, end = waits["operation"], waits["begin_s"], waits["end_s"]
    inner = np.flatnonzero(waiter >= 0)
    inner = inner[np.argsort(waiter[inner], kind="stable")]
    first = np.searchsorted(waiter[inner], np.arange(max(by_operation.max(initial=-1), -1) + 2))
    rows: list[NDArray[np.int64]] = []
    pieces: list[NDArray[np.int64]] = []
    for row in np.flatnonzero((waiter < 0) & (by_operation >= 0)).tolist():
        operation = by_operation[row]
        own = inner[first[operation] : first[operation + 1]]
        own = own[(end[own] > begin[row]) & (begin[own] < end[row])]
        rows.append(np.full(len(own), row, np.int64))
        pieces.append(own)
    nothing = np.empty(0, np.int64)
    return np.concatenate([nothing, *rows]), np.concatenate([nothing, *pieces])


def _spans(times: Iterable[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """Return times of ranks in their order."""
    try:
        return sorted((int(rank), float(begin_s), float(end_s)) for rank, begin_s, end_s in times)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"times are a list of (rank, begin_s, end_s), as in [(0, 0.5, 1.0)]; got {echo(times)}",
            code="wrong-type",
        ) from None


def _within(spans: Sequence[tuple[int, float, float]], ranks: Any, when_s: object) -> NDArray[np.bool_]:
    """Which times of ranks lie in spans, which are sorted; one span may lie in another."""
    found = np.zeros(len(ranks), np.bool_)
    ranks, when_s = np.asarray(ranks), np.asarray(when_s, np.float64)
    for rank in dict.fromkeys(rank for rank, _, _ in spans):
        own = np.array([span[1:] for span in spans if span[0] == rank])
        until_s = np.maximum.accumulate(own[:, 1])
        rows = np.flatnonzero(ranks == rank)
        at = np.searchsorted(own[:, 0], when_s[rows], side="right") - 1
        found[rows] = (at >= 0) & (when_s[rows] < until_s[at])
    return found


@dataclass(repr=False)
class Trace:
    """Every call, message, wait, computation and nonblocking collective of a run.

    Attributes
    ----------
    messages : pandas.DataFrame
        A row per message in order of completion: source and destination (ranks), tag, context, bytes
        (payload), send_posted_s and recv_posted_s (when the two sides were posted), start_s (begin of the
        transfer), arrived_s (its last byte), end_s (the receive is complete). Seconds of simulated time. On
        machines that choose a route for each message also way, the router's number for it. With nonblocking
        collectives also send_operation and recv_operation: the row in `operations` of the one that posted
        this side, or -1.
    waits : pandas.DataFrame
        A row for every time in which a rank had nothing to do: rank, begin_s, end_s, and the row of the
        message that ended it (-1: a probe, ended by the post of a send). With nonblocking collectives also
        operation: the row in `operations` of the one that was waited for (there is then a row for each
        message that it waited for meanwhile), or -1.
    computations : pandas.DataFrame
        A row for every uninterrupted charged computation: rank, begin_s, end_s. Where hosts have more ranks
        than cores also alone_s, the seconds that it takes on its own core.
    ends_s : list of float
        When each rank left the program.
    setting : (Platform, NetworkModel) or None
        The machine and the model of the run: what an explanation needs.
    beside : Beside or None
        The nonblocking collectives and what they waited for; None of a run without any.
    calls : pandas.DataFrame or None
        A row for every call of MPI that the program made: rank, call (its name), bytes (what the rank gave to
        a collective), begin_s, end_s, joint (number of the collective that the ranks' calls are one of, or
        -1, also between two groups), root (rank, or -1; of a real run's access to a window its target),
        position (the rank's own in the communicator), place
        (its call path), phase, algorithm (by which a simulated run's collective was carried out, else "").
        Tests and probes that find nothing are one call where they follow each other closely. None of a run
        that was no program: a schedule, or GOAL. Of a replay they have no place.
    clocks : Clocks or None
        Of a real run how its ranks' clocks go (`labkit.timing.clocks`).
    begins_s : list of float or None
        Of a real run when each rank entered the program, behind a barrier; of a simulated one with spawned
        ranks when these began.
    begun_by : list of int or None
        Of a simulated run with spawned ranks the rank that spawned each of them, -1 of the others.
    blocks : dict
        Of a real run by rows of `calls` what a rank gives to each rank of a collective, where these differ.
    call_cost_s : list of float or None
        Of a recorded real run by rank what the recorder takes of a call, as measured at the end of the run.
    counted : dict of arrays or None
        Of a real run with ``counters=`` these by call path: `labkit.trace.counters.summed_columns`.
    unreceived : pandas.DataFrame or None
        Of a simulated program a row for every message that was posted and that no receive had when the ranks
        ended: source, destination, tag, context, bytes, send_posted_s, is_counted (1: it was on its way, so
        that `Run.messages` and `Run.bytes` have it; 0: it was not).
    given_waits : pandas.DataFrame or None
        Wait states that what recorded the run found itself, as for windows: see
        `labkit.trace.waiting.tables.given_columns`.

    Notes
    -----
    Of a real run the seconds are those of its hosts. Its collectives are calls, not messages. It does not
    record when a message moves: arrived_s is NaN, and start_s is when both sides were there, or the post of a
    send that was over before. Computations are the times between calls. A row of its waits also has ready_s
    (when what it waited for could begin), origin (the rank for which it waited) and call (the row of the
    collective, or -1).
    """

    messages: pd.DataFrame
    waits: pd.DataFrame
    computations: pd.DataFrame
    ends_s: list[float] = field(default_factory=list)
    setting: Any = None
    beside: ConcurrentOperations | None = None
    calls: pd.DataFrame | None = None
    clocks: Clocks | None = None
    begins_s: list[float] | None = None
    blocks: dict[int, list[int]] = field(default_factory=dict)
    given_waits: pd.DataFrame | None = None
    counted: dict[str, Any] | None = None
    call_cost_s: list[float] | None = None
    begun_by: list[int] | None = None
    unreceived: pd.DataFrame | None = None

    @classmethod
    def from_columns(
        cls,
        messages: Mapping[str, object],
        waits: Mapping[str, object],
        computations: Mapping[str, object],
        ends_s: list[float],
        setting: object = None,
        beside: ConcurrentOperations | None = None,
        unreceived: Mapping[str, object] | None = None,
    ) -> Trace:
        """Build a trace from arrays by column.

        Parameters
        ----------
        messages, waits, computations : mapping of str to array_like, shape (rows,)
            The columns of the tables of these names; times in seconds.
        ends_s : list of float
            When each rank left the program, in seconds.
        setting, beside
            As of the trace.
        unreceived : mapping of str to array_like, shape (rows,), optional
            The columns of the table of that name.

        Returns
        -------
        Trace
        """
        import pandas as pd

        found, waited, worked = (pd.DataFrame(own, copy=False) for own in (messages, waits, computations))
        trace = cls(found, waited, worked, ends_s, setting, beside)
        trace.unreceived = None if unreceived is None else pd.DataFrame(unreceived)
        return trace

    @property
    def operations(self) -> pd.DataFrame:
        """A row for every nonblocking collective of a rank: rank, name, begin_s, end_s (inf: never over)."""
        import pandas as pd

        if self.beside is None:
            return pd.DataFrame({"rank": [], "name": [], "begin_s": [], "end_s": []})
        return self.beside.operations

    @property
    def is_own(self) -> NDArray[np.bool_]:
        """Whether the program itself sent each message, and no collective that it called did.

        Messages inside collectives travel in the odd contexts of their communicators; of a real run they are
        not recorded.
        """
        if self.clocks is not None:
            return np.ones(len(self.messages), np.bool_)
        return np.asarray(self.messages["context"].to_numpy(np.int64) % 2 == 0)

    def without(self, times: Iterable[tuple[int, float, float]]) -> Trace:
        """Leave out messages and waits of some times (rank, begin_s, end_s): they count as computation.

        With nonblocking collectives, which run concurrently with their ranks, all of them are kept.
        """
        if self.beside is not None:
            return self
        spans = _spans(times)
        messages, waits = self.messages, self.waits
        ends = (("source", "send_posted_s"), ("destination", "recv_posted_s"))
        out = [_within(spans, messages[rank], messages[when]) for rank, when in ends]
        kept = ~(out[0] | out[1])
        row = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)  # -1: a probe's
        message = waits["message"].to_numpy(np.int64)
        stays = (message < 0) | kept[message] if len(messages) else message < 0
        stays &= ~_within(spans, waits["rank"], waits["begin_s"])
        waits = waits[stays].reset_index(drop=True)
        waits["message"] = np.where(message < 0, message, row[np.maximum(message, -1)])[stays]
        return replace(self, messages=messages[kept].reset_index(drop=True), waits=waits)

    def recording_share(self) -> float:
        """Return what recording took of a real rank's time, where that is most; 0 of simulated runs.

        Polls in a row, which are one call, count once.
        """
        if not self.call_cost_s or self.calls is None or self.begins_s is None:
            return 0.0
        counts = self.calls["rank"].value_counts()
        spans = zip(self.call_cost_s, self.begins_s, self.ends_s, strict=True)
        shares = [
            cost * int(counts.get(rank, 0)) / (end - begin)
            for rank, (cost, begin, end) in enumerate(spans)
            if end > begin
        ]
        return max(shares, default=0.0)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        payload = format_bytes(int(self.messages["bytes"].sum()))
        return (
            f"trace of {len(self.ends_s)} ranks: {format_count(len(self))} messages with {payload}, "
            f"{format_count(len(self.waits))} waits, {format_count(len(self.computations))} computations"
            f"{f', {format_count(len(self.operations))} nonblocking collectives' if self.beside else ''}"
            f"{f', {format_count(len(self.calls))} calls' if self.calls is not None else ''}"
            f"{f'; {self.clocks.text()}' if self.clocks is not None else ''}{self._cost()}"
        )

    def _cost(self) -> str:
        if not self.call_cost_s or not max(self.call_cost_s):
            return ""
        share = format_share(self.recording_share())
        return (
            f"; recording took about {format_seconds(max(self.call_cost_s))} of a call, {share} of a rank's "
            "time where that is most"
        )


# The phase of a rank at a time.


#: of a rank into a phase: rank, phase, begin and end in seconds, and how many phases were around it
Entry = tuple[int, str, float, float, int]


NO_PHASE = "(no phase)"
#: instead of a phase's number where only the time shows it
NOT_SAID = -2


def phase_numbers(calls: pd.DataFrame, names: Any) -> NDArray[np.int64]:
    """Return the innermost phase that each call names, as a number.

    `calls`: Rows of `Trace.calls`.
    `names`: Of phases, by number.
    Returns: -1: none; `NOT_SAID`: the call names a phase that is not among these, or the calls name none at
        all.
    """
    import pandas as pd

    if "phase" not in calls:
        return np.full(len(calls), NOT_SAID, np.int64)
    said: object = calls["phase"].to_numpy(object)
    found = pd.Index(list(names), dtype="object").get_indexer(said)
    return np.where((found < 0) & (said != NO_PHASE), NOT_SAID, found).astype(np.int64)


def by_entry(rows: Iterable[Entry]) -> list[Entry]:
    """Return phases in the order of their begins; of simultaneous ones, as entered.

    Times alone do not show that of phases that take none.
    """
    left: dict[int, list[list[Entry]]] = {}  # by rank: phases that are over, each before those inside it
    for row in rows:
        known = left.setdefault(row[0], [])
        first = len(known)
        while first and known[first - 1][0][4] > row[4]:
            first -= 1
        inner = [one for part in known[first:] for one in part]
        known[first:] = [[row, *inner]]
    entered = [row for known in left.values() for part in known for row in part]
    return sorted(entered, key=lambda row: (row[2], row[0]))


class PhaseClock:
    """Looks phases up by rank and time; of nested phases the innermost counts.

    `phases`: `Run.phases`: rank, phase, begin_s, end_s, depth; without the last of a run that was kept before
        there was one.
    """

    def __init__(self, phases: pd.DataFrame) -> None:
        groups: Any = phases.groupby("rank", sort=False)
        self._rows = {int(rank): group for rank, group in groups}
        self._lines: dict[int, tuple[NDArray[np.float64], list[str]]] = {}

    def at(self, rank: int, when_s: float) -> str:
        """Return the phase of a rank at a time."""
        cuts, names = self._line(rank)
        return names[int(np.searchsorted(cuts, when_s, side="right"))]

    def all_at(self, ranks: NDArray[Any], whens_s: NDArray[np.float64]) -> NDArray[np.object_]:
        """Return the phases of ranks at times, an entry each."""
        found = np.full(len(ranks), NO_PHASE, object)
        for rank in self._rows:
            own = np.flatnonzero(ranks == rank)
            cuts, names = self._line(rank)
            found[own] = np.array(names, object)[np.searchsorted(cuts, whens_s[own], side="right")]
        return found

    def pieces(self, rank: int, begin_s: float, end_s: float) -> list[tuple[str, float, float]]:
        """Cut an interval of a rank at the borders of its phases: (phase, begin, end), in order."""
        cuts, names = self._line(rank)
        first = int(np.searchsorted(cuts, begin_s, side="right"))
        last = int(np.searchsorted(cuts, end_s, side="left"))
        borders = [begin_s, *(float(cut) for cut in cuts[first:last]), end_s]
        return [
            (names[first + i], low, high) for i, (low, high) in enumerate(pairwise(borders)) if high > low
        ]

    def _line(self, rank: int) -> tuple[NDArray[np.float64], list[str]]:
        """The borders of a rank's phases, and the phase before, between and after them."""
        if rank not in self._lines:
            self._lines[rank] = self._draw(rank)
        return self._lines[rank]

    def _draw(self, rank: int) -> tuple[NDArray[np.float64], list[str]]:
        rows = self._rows.get(rank)
        if rows is None:
            return np.empty(0), [NO_PHASE]
        columns = [rows[name].tolist() for name in ("begin_s", "end_s", "phase")]
        if "depth" in rows:
            spans = sorted(zip(*columns, rows["depth"].tolist(), strict=True), key=lambda span: span[0])
        else:
            around = [0] * len(rows)
            spans = sorted(zip(*columns, around, strict=True), key=lambda span: (span[0], -span[1]))
        cuts: list[float] = []
        names = [NO_PHASE]
        open_spans: list[tuple[float, str]] = []

        def close(until: float, depth: int = 0) -> None:
            while open_spans and (open_spans[-1][0], depth) < (until, len(open_spans)):
                cuts.append(open_spans.pop()[0])
                names.append(open_spans[-1][1] if open_spans else NO_PHASE)

        for begin, end, name, depth in spans:
            close(begin, depth if end == begin else 0)  # only what takes no time lies in what ends just then
            cuts.append(begin)
            names.append(name)
            open_spans.append((end, name))
        close(float("inf"))
        return np.array(cuts), names
