"""The explanation of a run's time: its critical path, by phase and by what held it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels
from labkit.errors import DataError, SuggestsNames
from labkit.machines.measure import HOST_KINDS, kind_of
from labkit.machines.noise import disturbed
from labkit.text.html import escape, quantity, table, titled_block
from labkit.text.units import format_bytes
from labkit.trace.activity import state_of_step
from labkit.trace.trace import PhaseClock, RecordedRun, Trace, lacks_trace

if TYPE_CHECKING:
    import pandas as pd


__all__ = [
    "COMPUTATION",
    "LATENCY",
    "OVERHEAD",
    "SHARED_CORES",
    "WINDOW",
    "Bottlenecks",
    "Contrast",
    "Explanation",
    "contrast",
    "critical_path",
    "explain_run",
    "explained",
    "find_bottlenecks",
    "spoken",
]


Kind = Literal["computation", "overhead", "transfer", "probe", "collective", "start"]


@dataclass(frozen=True)
class PathStep:
    """One step of a critical path.

    `kind`: ``computation`` (charged), ``overhead`` (a rank's own time in calls: os, ois, or, Wtime, Test),
        ``transfer`` (of a message), ``probe`` (a wait for an unsent message), ``collective`` (of a real run,
        from when its last rank came), ``start`` (of a real run: the rank had not begun).
    `rank`: Where: of a transfer, the rank that waited for it.
    `begin_s`, `end_s`: Seconds of simulated time.
    `message`: Row in `Trace.messages`; -1 when it is no transfer.
    `slowdown`: Of a computation: how many times longer it took than on its own core.
    """

    kind: Kind
    rank: int
    begin_s: float
    end_s: float
    message: int = -1
    slowdown: float = 1.0

    @property
    def seconds(self) -> float:
        """Length of the step."""
        return self.end_s - self.begin_s


class _ByLine:
    """Rows of a table, by line (a rank's, or an operation's), in the order in which they were recorded."""

    def __init__(self, table: pd.DataFrame, lines: int, line: NDArray[np.int64] | None = None) -> None:
        owner = table["rank"].to_numpy() if line is None else line
        self.order: NDArray[np.int64] = np.argsort(owner, kind="stable")
        self.first = np.searchsorted(owner[self.order], np.arange(lines + 1))
        self.begin_s = table["begin_s"].to_numpy()
        self.end_s = table["end_s"].to_numpy()
        #: in the order of lines, so that those of a line are a slice
        self.begins_s, self.ends_s = self.begin_s[self.order], self.end_s[self.order]
        self.slowdown: NDArray[np.float64] | None = None  # where cores were shared
        if "alone_s" in table:
            self.slowdown = np.maximum(1.0, (self.end_s - self.begin_s) / table["alone_s"].to_numpy())

    def rows(self, line: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the rows of a line, their begins and their ends."""
        own = slice(self.first[line], self.first[line + 1])
        return self.order[own], self.begins_s[own], self.ends_s[own]


class _Lines:
    """The lines that time runs along: ranks, then operations. What waited when, and who posted what."""

    def __init__(self, trace: Trace) -> None:
        self.ranks = len(trace.ends_s)
        self.begun_by = trace.begun_by or [-1] * self.ranks
        begins = trace.begins_s or [0.0] * self.ranks
        self.begin_s = np.where(np.array(self.begun_by, np.int64) >= 0, begins, 0.0)
        self.source, self.destination = (trace.messages[end].to_numpy() for end in ("source", "destination"))
        if trace.beside is None:
            self.waits, self.rank_of = _ByLine(trace.waits, self.ranks), np.arange(self.ranks)
            self.ended_by = trace.waits["message"].to_numpy()
            return
        waits, operations = trace.beside.waits, trace.beside.operations
        waiter = waits["operation"].to_numpy()
        line = np.where(waiter >= 0, self.ranks + waiter, waits["rank"].to_numpy())
        self.rank_of = np.concatenate([np.arange(self.ranks), operations["rank"].to_numpy()])
        self.waits = _ByLine(waits, len(self.rank_of), line)
        self.ended_by = waits["message"].to_numpy()
        self.begin_s = np.concatenate([self.begin_s, operations["begin_s"].to_numpy()])
        for end, side in (("source", "send_operation"), ("destination", "recv_operation")):
            by = trace.messages[side].to_numpy()
            setattr(self, end, np.where(by >= 0, self.ranks + by, getattr(self, end)))

    def last_wait(self, line: int, now: float, before: int) -> tuple[int, float]:
        """Return the last wait of a line that was over at a time, and its end; -1 and the line's begin."""
        own, _, ends_s = self.waits.rows(line)
        ended = np.searchsorted(ends_s, now, side="right")
        own = own[: min(ended, np.searchsorted(own, before))]
        if own.size:
            return int(own[-1]), float(self.waits.end_s[own[-1]])
        return -1, float(self.begin_s[line])


def critical_path(trace: Trace) -> list[PathStep]:
    """Walk the critical path of a run.

    Returns: From the start of the run to its end, without a gap. Where several ranks or messages end at the
        same time, the lowest rank's, and the sender's side of a message, is taken.
    """
    lines = _Lines(trace)
    ranks, waits, ended_by = lines.ranks, lines.waits, lines.ended_by
    work = _ByLine(trace.computations, ranks)
    sent, start = (trace.messages[when].to_numpy() for when in ("send_posted_s", "start_s"))

    ready = trace.waits["ready_s"].to_numpy() if "ready_s" in trace.waits else None
    origin = trace.waits["origin"].to_numpy() if ready is not None else lines.source

    line = int(np.argmax(trace.ends_s))
    now = float(trace.ends_s[line])
    before = len(ended_by)  # waits are recorded in order: an earlier one has a smaller row
    steps: list[PathStep] = []
    while now > 0.0:
        rank, is_beside = int(lines.rank_of[line]), line >= ranks
        row, resumed = lines.last_wait(line, now, before)
        if not is_beside:
            steps += _own_work(work, rank, resumed, now)
        elif resumed < now:
            steps.append(PathStep("overhead", rank, resumed, now))
        if row < 0:
            line, now = rank if is_beside else lines.begun_by[rank], resumed
            if line < 0:
                break
            continue
        before = row
        message = int(ended_by[before])
        if ready is not None:  # of a real run: on whom it waited, and until when
            now = float(ready[before])
            kind: Kind = "transfer" if message >= 0 else "collective"
            steps.append(PathStep(kind, rank, now, resumed, message))
            line = int(origin[before])
            continue
        if message < -1:
            line, now = ranks - 2 - message, resumed
            continue
        if message < 0:
            steps.append(PathStep("probe", rank, float(waits.begin_s[before]), resumed))
            now = float(waits.begin_s[before])
            continue
        now = float(start[message])
        steps.append(PathStep("transfer", rank, now, resumed, message))
        line = int(lines.source[message] if sent[message] >= now else lines.destination[message])
    if trace.begins_s is not None and steps and steps[-1].kind == "overhead" and steps[-1].begin_s == 0.0:
        first = steps.pop()
        begin = min(trace.begins_s[first.rank], first.end_s)
        steps += [PathStep("overhead", first.rank, begin, first.end_s)] if begin < first.end_s else []
        steps += [PathStep("start", first.rank, 0.0, begin)] if begin > 0.0 else []
    return steps[::-1]


def _own_work(work: _ByLine, rank: int, begin_s: float, end_s: float) -> list[PathStep]:
    """Cut a rank's own time into computations and overheads, latest first."""
    own, begins_s, ends_s = work.rows(rank)
    first = np.searchsorted(ends_s, begin_s, side="right")
    last = np.searchsorted(begins_s, end_s, side="left")
    steps: list[PathStep] = []
    now = end_s
    for row in own[first:last][::-1]:
        begin, end = max(begin_s, float(work.begin_s[row])), min(now, float(work.end_s[row]))
        if end < now:
            steps.append(PathStep("overhead", rank, end, now))
        if begin < end:
            slowdown = 1.0 if work.slowdown is None else float(work.slowdown[row])
            steps.append(PathStep("computation", rank, begin, end, slowdown=slowdown))
        now = begin
    if begin_s < now:
        steps.append(PathStep("overhead", rank, begin_s, now))
    return steps


#: collectives that are named one by one
_MOST_SAID = 6

#: parts of a run in its `Bottlenecks.utilisation`
BINS = 200

COMPUTATION, OVERHEAD, PROBE, TRANSFER, COLLECTIVE, START = (
    state_of_step(kind).reading
    for kind in ("computation", "overhead", "probe", "transfer", "collective", "start")
)

#: followed by how many ranks share how many cores
SHARED_CORES = "shared cores"

LATENCY = "latency"

OWN_BOUND = "a transfer's own bound (window / latency)"

NOT_SOLVED = "transfers whose instants were not solved"

_LINK_COLUMNS = ["link", "kind", "capacity", "bytes", "utilisation", "full", "held_s", "number"]


# The bottleneck of each transfer of a recorded run, a link or another bound, and the links' utilisation.
#
# Nothing is recorded for this but who sent how much from when to when: the allocation of every instant is
# solved once more by the engine's own solver, and the bytes it moves are checked against the sizes sent.

#: in `Bottlenecks.link`: held by the bound that the latency sets to one transfer (the TCP window)
WINDOW = -1

#: flows that may be filled again; about 20 s of host time
WORK = 200_000_000

#: entries of the table of utilisation
CELLS = 4_000_000


@dataclass
class Bottlenecks:
    """What held the transfers of a run.

    Attributes
    ----------
    latency_s : array of float, by message
        Length of the latency phase.
    transfer, link, seconds : arrays
        One entry per stretch of a transfer: the message's row, the link that held it (`WINDOW`: its own
        bound), for how long. Sorted by message.
    link_bytes, link_full_s, link_held_s : arrays of float, by link
        What a link carried, how long its capacity was used up, and the seconds of transfers it held, summed.
    utilisation : array of float, shape (links, bins)
        Mean share of a link's capacity that was in use, in equal parts of the run.
    instants, solved : int
        How many times the allocation changed, and how many of these instants were solved (all, but for huge
        loads).
    moved_error : float
        Largest relative difference between a transfer's size and the bytes that the solved rates moved.
    """

    latency_s: NDArray[np.float64]
    transfer: NDArray[np.int64]
    link: NDArray[np.int64]
    seconds: NDArray[np.float64]
    link_bytes: NDArray[np.float64]
    link_full_s: NDArray[np.float64]
    link_held_s: NDArray[np.float64]
    utilisation: NDArray[np.float64]
    instants: int
    solved: int
    moved_error: float

    def held(self, message: int) -> list[tuple[int, float]]:
        """Return the (link, seconds) of one message, in order of time."""
        first, last = np.searchsorted(self.transfer, [message, message + 1])
        return [(int(self.link[i]), float(self.seconds[i])) for i in range(first, last)]


def find_bottlenecks(
    trace: Trace, built: _kernels.Platform, model: Any, makespan_s: float, bins: int = 200, work: int = WORK
) -> Bottlenecks:
    """Solve the allocations of a recorded run again."""
    rows = trace.messages
    links = int(built.link_count)
    bins = max(1, min(bins, CELLS // max(links, 1)))
    found = _kernels.analyze_transfers(
        built,
        model,
        rows["source"].to_numpy(np.int32),
        rows["destination"].to_numpy(np.int32),
        rows["bytes"].to_numpy(np.uint64),
        rows["start_s"].to_numpy(np.float64),
        rows["arrived_s"].to_numpy(np.float64),
        _ways(rows),
        makespan_s,
        bins,
        work,
    )
    found["utilisation"] = found["utilisation"].reshape(links, bins)
    return Bottlenecks(**found)


def _ways(rows: pd.DataFrame) -> NDArray[np.uint32]:
    """Which of several routes each message took; machines of one route a pair record none."""
    if "way" in rows:
        return np.ascontiguousarray(rows["way"].to_numpy(np.uint32))
    return np.zeros(len(rows), np.uint32)


@dataclass(repr=False)
class Explanation(SuggestsNames):
    """Why a run took as long as it did.

    Attributes
    ----------
    program, on : str
        What ran where.
    makespan_s : float
        Seconds of simulated time; the sum of ``reasons["seconds"]``.
    reasons : pandas.DataFrame
        The critical path summed up: phase, reason, seconds, share (of the makespan). A reason is a
        computation, what it took longer because other ranks computed on the same cores, an overhead, the
        latency, a transfer's own bound, or the kind of the links that held the transfers.
    path : pandas.DataFrame
        The critical path step by step: kind, rank, begin_s, end_s, message (row of the trace or -1), phase.
    links : pandas.DataFrame
        One row per link that carried anything, the one that held transfers longest first: link, kind,
        capacity (bytes/s), bytes (carried, in terms of its capacity), utilisation (mean share over the run),
        full (share of the run in which it was used up), held_s (seconds of transfers it held, summed up),
        number.
    bottlenecks : Bottlenecks or None
        What held each transfer; utilisation of every link over time. None for a real run.
    trace : Trace
        What was explained.
    collectives : mapping
        Situation to algorithm, as `Run.collectives`.
    """

    program: str
    on: str
    makespan_s: float
    reasons: pd.DataFrame
    path: pd.DataFrame
    links: pd.DataFrame
    bottlenecks: Bottlenecks | None
    trace: Trace
    collectives: Mapping[Any, str] = field(default_factory=dict)

    _INSTEAD = MappingProxyType(
        dict.fromkeys(
            ("plot", "show", "draw"),
            "labkit.plot.critical_path(explanation), or labkit.plot.heat(explanation) for the machine",
        )
    )

    @property
    def is_exact(self) -> bool:
        """Whether every instant was solved."""
        return self.bottlenecks is None or self.bottlenecks.solved == self.bottlenecks.instants

    def totals(self) -> pd.Series:
        """Return the seconds of every reason on the critical path, largest first."""
        seconds: pd.Series = self.reasons.groupby("reason", sort=False)["seconds"].sum()
        return seconds.sort_values(ascending=False, kind="stable")

    def reading(self) -> str:
        """Explain in a sentence or two what made the run as long as it was."""
        if self.makespan_s <= 0:
            return f"{self.program} on {self.on} took no time."
        shares = self.totals() / self.makespan_s
        large = shares[shares >= 0.05].head(4)
        named = [f"{share:.0%} {spoken(str(reason))}" for reason, share in large.items()]
        text = f"Of {quantity(self.makespan_s, 's')} on {self.on}, the critical path is {_joined(named)}."
        if self.bottlenecks is None:
            return f"{text} {self._of_real()}"
        full = self.links[self.links["full"] >= 0.05]
        if len(full):
            first = full.iloc[0]
            text += (
                f" The busiest bottleneck is {first['link']}: used up during {first['full']:.0%} of the run, "
                f"{first['utilisation']:.0%} of its capacity over the whole."
            )
        else:
            text += " No link was used up for more than 5% of the run: more bandwidth would hardly help."
        if not self.is_exact:
            b = self.bottlenecks
            text += f" Only {b.solved / b.instants:.0%} of the instants were solved: this is an estimate."
        elif self.bottlenecks.moved_error > 1e-6:
            text += (
                f" The rates found differ from the run's by up to {self.bottlenecks.moved_error:.1%}: "
                "the run used a feature that the explanation does not cover."
            )
        return text

    def _of_real(self) -> str:
        clocks = self.trace.clocks
        said = clocks.text() if clocks is not None else ""
        return f"Which links its messages used, a real run does not record{'; ' if said else ''}{said}."

    def algorithms(self) -> str:
        """Return as text by which algorithms the collectives were carried out; empty if none was chosen."""
        said = [
            f"{at.operation} on {at.ranks}{f', {format_bytes(at.n_bytes)}' if at.n_bytes else ''}: {name}"
            for at, name in self.collectives.items()
        ]
        more = f"; and {len(said) - _MOST_SAID} more" if len(said) > _MOST_SAID else ""
        return f"collectives by algorithm: {'; '.join(said[:_MOST_SAID])}{more}" if said else ""

    def record(self) -> dict[str, object]:
        """Return the explanation as plain data: reading, reasons, and the 20 foremost links."""
        links = self.links.drop(columns="number").head(20)
        return {
            "reading": self.reading(),
            "reasons": self.reasons.to_dict("records"),
            "links": links.to_dict("records"),
            "is_exact": self.is_exact,
            "collectives": [{**at._asdict(), "algorithm": name} for at, name in self.collectives.items()],
        }

    def __repr__(self) -> str:
        lines = [f"{self.program}: {self.reading()}"]
        for phase, rows in self.reasons.groupby("phase", sort=False):
            spent = quantity(float(rows["seconds"].sum()), "s", 3)
            rows = rows.sort_values("seconds", ascending=False, kind="stable")
            rows = rows[rows["share"] >= 0.005] if rows["share"].max() >= 0.005 else rows.head(1)
            parts = [
                f"{reason} {quantity(seconds, 's', 3)}"
                for reason, seconds in zip(rows["reason"].tolist(), rows["seconds"].tolist(), strict=True)
            ]
            lines.append(f"  {phase}: {spent} = {', '.join(parts)}")
        if self.collectives:
            lines.append(f"  {self.algorithms()}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        order = [str(reason) for reason in self.totals().index]
        grid = self.reasons.pivot_table(
            index="phase", columns="reason", values="share", aggfunc="sum", fill_value=0.0, sort=False
        )
        rows = [
            [escape(str(phase)), *(_percent(grid.loc[phase].get(reason, 0.0)) for reason in order)]
            for phase in grid.index
        ]
        parts = [f"<p>{escape(self.reading())}</p>", table(["phase", *map(escape, order)], rows)]
        if self.collectives:
            parts.append(f"<p>{escape(self.algorithms())}</p>")
        busiest = self.links[self.links["held_s"] > 0].head(6)
        if len(busiest):
            cells = [
                [escape(link), escape(kind), f"{full:.0%}", f"{used:.0%}", quantity(held, "s", 3)]
                for link, kind, full, used, held in zip(
                    *(busiest[c].tolist() for c in ("link", "kind", "full", "utilisation", "held_s")),
                    strict=True,
                )
            ]
            parts.append(table(["link", "kind", "used up", "utilisation", "transfers held"], cells))
        return titled_block(f"Why {self.program} took {quantity(self.makespan_s, 's')}", "".join(parts))


def explain_run(run: RecordedRun) -> Explanation:
    """Explain a recorded run."""
    trace = run.trace
    if trace is None:
        raise lacks_trace(run, f"{run.program} on {run.on} cannot be explained")
    clock = PhaseClock(run.phases)
    steps = critical_path(trace)
    if trace.setting is None:
        return Explanation(
            run.program,
            run.on,
            run.makespan_s,
            _own_reasons(steps, clock, run.makespan_s),
            _path(steps, clock),
            _no_links(),
            None,
            trace,
            run.collectives,
        )
    machine, network = trace.setting
    if network.sharing != "maxmin":
        raise DataError(
            f"in the model {network.name} messages share no links, so none of them held any up; explain a "
            "run with a model such as lab",
            code="unsupported",
        )
    built = disturbed(machine.build(run.ranks), run.machine.get("noise"))
    found = find_bottlenecks(trace, built, network.build(), run.makespan_s, BINS)
    return Explanation(
        run.program,
        run.on,
        run.makespan_s,
        _reasons(steps, clock, found, built, run.makespan_s),
        _path(steps, clock),
        _links(built, found, run.makespan_s),
        found,
        trace,
        run.collectives,
    )


def _reasons(
    steps: list[PathStep], clock: PhaseClock, found: Bottlenecks, built: _kernels.Platform, makespan_s: float
) -> pd.DataFrame:

    sums: dict[tuple[str, str], float] = {}

    def add(phase: str, reason: str, seconds: float) -> None:
        sums[phase, reason] = sums.get((phase, reason), 0.0) + seconds

    own = {"computation": COMPUTATION, "overhead": OVERHEAD, "probe": PROBE}
    shared = _shared_cores(built)
    for step in steps:
        if step.kind != "transfer":
            for phase, begin, end in clock.pieces(step.rank, step.begin_s, step.end_s):
                alone_s = (end - begin) / step.slowdown
                add(phase, own[step.kind], alone_s)
                if step.slowdown > 1.0:
                    add(phase, shared[step.rank], end - begin - alone_s)
            continue
        phase = _phase_of(step, clock)
        latency = min(float(found.latency_s[step.message]), step.seconds)
        rest = step.seconds - latency
        add(phase, LATENCY, latency)
        for link, seconds in found.held(step.message):
            part = min(seconds, rest)
            add(phase, OWN_BOUND if link == WINDOW else kind_of(built.link(link)[0]), part)
            rest -= part
        if rest > 1e-9 * step.seconds:
            add(phase, NOT_SOLVED, rest)
    return _summed(sums, makespan_s)


def _own_reasons(steps: list[PathStep], clock: PhaseClock, makespan_s: float) -> pd.DataFrame:
    """Sum up the path of a real run: what held a message is not known."""
    sums: dict[tuple[str, str], float] = {}
    for step in steps:
        reason = state_of_step(step.kind).reading
        for phase, begin, end in clock.pieces(step.rank, step.begin_s, step.end_s):
            sums[phase, reason] = sums.get((phase, reason), 0.0) + end - begin
    return _summed(sums, makespan_s)


def _summed(sums: dict[tuple[str, str], float], makespan_s: float) -> pd.DataFrame:
    import pandas as pd

    rows = [
        (phase, reason, s, s / makespan_s if makespan_s > 0 else 0.0) for (phase, reason), s in sums.items()
    ]
    return pd.DataFrame(rows, columns=["phase", "reason", "seconds", "share"])


def _shared_cores(built: _kernels.Platform) -> dict[int, str]:
    """Name the reason for which the computations of ranks on crowded hosts take longer."""
    reasons = {
        host: f"{SHARED_CORES} ({ranks} ranks on {cores} core{'s' if cores > 1 else ''})"
        for host, cores, ranks in built.crowded_hosts()
    }
    return {rank: reasons[host] for rank, host in enumerate(built.rank_hosts) if host in reasons}


def _phase_of(step: PathStep, clock: PhaseClock) -> str:
    """Return the phase that the step's rank was in when the step ended."""
    return clock.at(step.rank, float(np.nextafter(step.end_s, step.begin_s)))


def _path(steps: list[PathStep], clock: PhaseClock) -> pd.DataFrame:
    import pandas as pd

    rows = [(s.kind, s.rank, s.begin_s, s.end_s, s.message, _phase_of(s, clock)) for s in steps]
    return pd.DataFrame(rows, columns=["kind", "rank", "begin_s", "end_s", "message", "phase"])


def _links(built: _kernels.Platform, found: Bottlenecks, makespan_s: float) -> pd.DataFrame:
    import pandas as pd

    used = np.flatnonzero(found.link_bytes > 0)
    used = used[np.lexsort((used, -found.link_bytes[used], -found.link_held_s[used]))]
    rows = []
    for number in used.tolist():
        name, capacity = built.link(number)[:2]
        carried = float(found.link_bytes[number])
        rows.append(
            (
                name,
                kind_of(name),
                capacity,
                carried,
                carried / capacity / makespan_s,
                float(found.link_full_s[number]) / makespan_s,
                float(found.link_held_s[number]),
                number,
            )
        )
    return pd.DataFrame(rows, columns=_LINK_COLUMNS)


def _no_links() -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([], columns=_LINK_COLUMNS)


def explained(given: object, takes: str) -> Explanation:
    """Return a recorded run's explanation, made here or before."""
    if isinstance(given, Explanation):
        return given
    if not hasattr(given, "explain"):
        raise DataError(
            f"{takes}, run(..., trace=True), or its run.explain(); got {type(given).__name__}",
            code="wrong-type",
        )
    found: Explanation = given.explain()
    return found


def spoken(reason: str) -> str:
    """Return a reason as a part of a sentence."""
    if reason in (COMPUTATION, LATENCY, NOT_SOLVED, TRANSFER, COLLECTIVE, START) or reason.startswith(
        SHARED_CORES
    ):
        return reason
    if reason == OWN_BOUND:
        return "transfers alone at their own bound"
    if reason == OVERHEAD:
        return "start-ups and calls"
    if reason == PROBE:
        return "waiting until somebody sent"
    return f"transfers held by {reason}"


def _joined(parts: list[str]) -> str:
    if not parts:
        return "spread over many reasons of less than 5 % each"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.0005 else ""


# Explanations side by side: why one machine took longer than another, or why all took the same.


#: makespans closer than this are called the same
SAME = 0.05
#: what does not depend on how the hosts are connected
SHARED = (COMPUTATION, OVERHEAD, PROBE, *HOST_KINDS)


@dataclass(repr=False)
class Contrast(SuggestsNames):
    """Several explanations side by side.

    Attributes
    ----------
    explanations : list of Explanation
    seconds : pandas.DataFrame
        Seconds on the critical path: a row per reason, a column per run.
    """

    explanations: list[Explanation]
    seconds: pd.DataFrame

    def reading(self) -> str:
        """Explain why the runs took different times, or the same."""
        ordered = sorted(self.explanations, key=lambda e: e.makespan_s)
        fast, slow = ordered[0], ordered[-1]
        names = self._names()
        spread = slow.makespan_s / fast.makespan_s - 1 if fast.makespan_s > 0 else 0.0
        if spread <= SAME:
            return self._sameness(names, spread)
        more_s = slow.makespan_s - fast.makespan_s
        a, b = (names[self.explanations.index(e)] for e in (fast, slow))
        more = (self.seconds[b] - self.seconds[a]).sort_values(ascending=False, kind="stable")
        grown = [(str(reason), float(s)) for reason, s in more.items() if s > 0][:2]
        reasons = [f"{quantity(s, 's', 3)} more in {spoken(reason)}" for reason, s in grown]
        return (
            f"{b} takes {spread:.0%} longer than {a} ({quantity(more_s, 's', 3)}): {' and '.join(reasons)}."
        )

    def _sameness(self, names: list[str], spread: float) -> str:
        of_hosts = [r for r in self.seconds.index if r in SHARED or str(r).startswith(SHARED_CORES)]
        shared = self.seconds.loc[of_hosts].sum()
        ends = [e.makespan_s or 1.0 for e in self.explanations]
        shares = [float(shared[name]) / end for name, end in zip(names, ends, strict=True)]
        if min(shares) < 0.5:
            return (
                f"The runs differ by {spread:.1%} only, although different things hold them: see the table."
            )
        return (
            f"The runs differ by {spread:.1%} only: computation, start-ups and the links of single hosts, "
            f"which all these machines share, make up {_range(shares)} of the critical path; what lies "
            "between the hosts holds little."
        )

    def _names(self) -> list[str]:
        return [str(name) for name in self.seconds.columns]

    def __repr__(self) -> str:
        shown = self.seconds.map(lambda s: quantity(float(s), "s", 3) if s else "")
        return f"{self.reading()}\n{shown.to_string()}"

    def _repr_html_(self) -> str:
        rows = [
            [escape(str(reason)), *(quantity(float(s), "s", 3) if s else "" for s in line)]
            for reason, line in zip(self.seconds.index, self.seconds.to_numpy(), strict=True)
        ]
        rows.append(
            ["<b>makespan</b>", *(f"<b>{quantity(e.makespan_s, 's')}</b>" for e in self.explanations)]
        )
        head = ["on the critical path", *map(escape, self._names())]
        return titled_block("Why these runs differ", f"<p>{escape(self.reading())}</p>{table(head, rows)}")


def contrast(
    explanations: Explanation | RecordedRun | Sequence[Explanation | RecordedRun],
    *others: Explanation | RecordedRun,
) -> Contrast:
    """Put recorded runs side by side, each explained.

    Parameters
    ----------
    explanations, *others : Run or Explanation, or one sequence of them
        At least two, recorded with ``trace=True``.

    Returns
    -------
    Contrast

    Raises
    ------
    DataError
        Fewer than two, or something else, or a run that was not recorded.

    Examples
    --------
    >>> import labkit as lk
    >>> def program(comm):
    ...     comm.allreduce(1.0)
    >>> runs = [lk.run(program, 4, on, trace=True) for on in ("star:4", "torus:4")]
    >>> contrast(*runs).seconds.columns.tolist()
    ['star:4', 'torus:4']
    """
    import pandas as pd

    first = explanations if isinstance(explanations, Sequence) else [explanations]
    found = [explained(one, "each of labkit.contrast is a recorded run") for one in (*first, *others)]
    if len(found) < 2:
        raise DataError(
            f"a contrast needs at least two recorded runs, got {len(found)}", code="not-enough-data"
        )
    names: list[str] = []
    for e in found:
        name = e.on if len({x.program for x in found}) == 1 else f"{e.program} on {e.on}"
        same = sum(known == name or known.startswith(f"{name} (") for known in names)
        names.append(f"{name} ({same + 1})" if same else name)
    columns = {name: e.totals() for name, e in zip(names, found, strict=True)}
    seconds = pd.DataFrame(columns).fillna(0.0)
    seconds = seconds.loc[seconds.max(axis=1).sort_values(ascending=False, kind="stable").index]
    return Contrast(found, seconds)


def _range(shares: list[float]) -> str:
    low, high = f"{min(shares):.0%}", f"{max(shares):.0%}"
    return low if low == high else f"{low} to {high}"
