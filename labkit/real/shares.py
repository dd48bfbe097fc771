"""The ranks' reports of a real launch, made into runs: the same for every way of starting them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from labkit.errors import MachineError
from labkit.program.context import Decisions
from labkit.program.function_phases import regions_of
from labkit.program.rank_counts import joined, tally_frame
from labkit.request import RunRequest
from labkit.result import Run, median_run, phase_frame

if TYPE_CHECKING:
    from labkit.timing.clocks import Clocks
    from labkit.trace.recorder.merge import Recording

__all__ = [
    "Share",
    "gather_runs",
    "oversubscription",
    "read_result",
    "read_share",
    "recorded_header",
    "recording_for",
    "run_of",
]

#: a rank's times and result of each repetition
Share = list[tuple[dict[str, Any], Any]]


def read_result(rank: int, source: bytes | BinaryIO) -> Any:
    """Unpickle one result of a rank."""
    try:
        return pickle.loads(source) if isinstance(source, bytes) else pickle.load(source)
    except Exception as error:  # unpickling runs foreign code: anything may be raised
        raise MachineError(
            f"the result of rank {rank} cannot be read here: {type(error).__name__}: {error}; return plain "
            "data (numbers, strings, arrays, lists, ...)",
            code="lost-result",
        ) from error


def read_share(rank: int, file: BinaryIO, repeats: int) -> Share:
    """Read a rank's (times, result) of each repetition from its result file.

    At most `repeats`: where they went on until the times were known well enough, the last one is marked.
    """
    share: Share = []
    for _ in range(repeats):
        share.append((read_result(rank, file), read_result(rank, file)))
        if share[-1][0].get("is_last"):
            break
    return share


def gather_runs(
    shares: Sequence[Share],
    output: Sequence[bytes],
    clocks: Sequence[Sequence[int]] | None = None,
    **facts: object,
) -> list[Run]:
    """Turn the ranks' shares into one run per repetition."""
    return [_run_of_repetition(shares, n, output, clocks, facts) for n in range(len(shares[0]))]


def _run_of_repetition(
    shares: Sequence[Share],
    repetition: int,
    output: Sequence[bytes],
    clocks: Sequence[Sequence[int]] | None,
    facts: Mapping[str, Any],
) -> Run:
    times = [share[repetition][0] for share in shares]
    compared = _clocks_of(times)
    if compared is not None:
        times = [_led_over(one, compared, rank) for rank, one in enumerate(times)]
    is_led = compared is not None or all("led" in one for one in times)
    groups = [range(len(times))] if is_led or clocks is None else clocks
    starts = _starts(times, groups)
    rows = [
        (rank, phase, begin - starts[rank], end - starts[rank], depth)
        for rank, one in enumerate(times)
        for phase, begin, end, depth in sorted(one["phases"], key=lambda entry: (entry[1], entry[3]))
    ]
    found = _recorded(times, compared, min(starts), rows)
    uncounted = _uncounted(times) if compared is not None else []
    notes = [
        *facts["notes"],
        *(f"trace: {one}" for one in found.said),
        *(f"counters: {one}" for one in uncounted),
    ]
    decisions = Decisions.of(times[0].get("decided", ()))
    notes += decisions.notes()
    notes += dict.fromkeys(note for one in times for note in one.get("noted", ()))
    conduct = shares[0][-1][0].get("conduct")
    notes += conduct.notes() if conduct is not None else ()
    own = {"machine": dict(facts["machine"]), "notes": notes, "conduct": conduct}
    return Run(
        ranks=len(shares),
        results=[share[repetition][1] for share in shares],
        makespan_s=max(one["end"] - start for one, start in zip(times, starts, strict=True)),
        phases=found.phases,
        trace=found.trace,
        counts=found.counts,
        summary=found.summary,
        seed=times[0].get("seed"),
        collectives=times[0].get("taken", {}) | decisions.collectives(),
        output=[_printed(output[r], share, repetition) for r, share in enumerate(shares)],
        **{**facts, **own},
    )


class _Recorded(NamedTuple):
    """What the ranks recorded in one repetition: tables of a `Run`, and remarks on them."""

    phases: Any
    trace: Any
    counts: Any
    summary: dict[str, Any] | None
    said: list[str]


def _recorded(
    times: Sequence[Mapping[str, Any]], compared: Clocks | None, start: float, rows: Sequence[Any]
) -> _Recorded:
    said: list[str] = []
    phases: Any = phase_frame(rows) if rows or compared is not None else None
    trace, summary = None, None
    if compared is not None and "summary" in times[0]["timeline"]:
        summary, said = _summed(times, start)
    elif compared is not None:
        from labkit.trace.recorder.timeline import trace_of

        spans = [(one["begin"], one["end"]) for one in times]
        trace, said = trace_of([one["timeline"] for one in times], compared, spans, phases)
        if all("counted" in one["timeline"] for one in times):
            trace.counted = _summed(times, start, "counted")[0]
    counts = None
    if trace is not None and all("tally" in one for one in times):
        from labkit.trace.counters import counted

        tallied = [row for one in times for row in one["tally"]]
        counts = tally_frame(joined(counted(trace, phases), tallied))
        if not times[0]["keeps_trace"]:
            trace, said = None, []
    elif summary is not None and all("tally" in one for one in times):  # messages are in the summary
        counts = tally_frame([row for one in times for row in one["tally"]])
    return _Recorded(phases, trace, counts, summary, said)


def run_of(runs: list[Run], notes: Sequence[str] = ()) -> Run:
    """Return the repetition with the median makespan; `notes` are about the first one, which was recorded."""
    runs[0].notes.extend(notes)
    return median_run(runs)


def oversubscription(ranks: int, cores: int, where: str = "") -> str:
    """Return the sentence that ranks shared cores, whose times therefore allow no verdict."""
    plural = "s" if cores != 1 else ""
    of = f" of {where}" if where else ""
    return (
        f"oversubscription: {ranks} ranks shared {cores} core{plural}{of}, and the times measure how they did"
    )


def recorded_header(request: RunRequest, recording: Recording | None) -> dict[str, object]:
    """Return what the ranks need of a run that is recorded: lines, times or both; else nothing."""
    is_counted = request.count and not isinstance(request.program, Path)
    leave_out = regions_of(request.options.get("leave_out"))
    counters: Any = ()
    if request.options.get("counters") is not None:  # only then: it brings the tracing rooms along
        from labkit.trace.counters import checked_counters

        counters = checked_counters(request.options["counters"])
    # A trace has more detail.
    is_summed = bool(request.options.get("summary") or counters) and not request.trace
    if leave_out and not (request.trace or is_summed):
        raise MachineError(
            "leave_out lists what trace=True or summary=True does not record; give both",
            code="conflicting-options",
        )
    if recording is None and not request.trace and not is_counted and not is_summed:
        return {}
    from labkit.trace.recorder.merge import recording_header

    is_whole = recording is not None or request.trace or is_summed
    has_times = request.trace or is_counted or is_summed
    return {
        "recording": recording_header(recording, has_times, leave_out, is_summed, counters),
        "recorded": request.repeats if is_whole else 1,
        "counts": {"keeps_trace": request.trace} if is_counted else None,
    }


def recording_for(request: RunRequest) -> Recording | None:
    """Read the options of a recorded run; None where none is recorded."""
    if request.trace_ti is None:
        return None
    from labkit.trace.recorder.merge import recording_of

    return recording_of(request.trace_ti, request.compute)


def _uncounted(times: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the ranks say of counters that they were not given, each once."""
    return list(dict.fromkeys(said for one in times for said in one["timeline"].get("uncounted", ())))


def _summed(
    times: Sequence[Mapping[str, Any]], zero: float, what: str = "summary"
) -> tuple[dict[str, Any], list[str]]:
    """Return the columns of all ranks' summaries, and what there is to say of them."""
    from labkit.trace.counters import joined_columns, not_begun

    columns = [one["timeline"][what] for one in times]
    late = ((rank, one["begin"] - zero) for rank, one in enumerate(times))
    columns += [not_begun(rank, seconds) for rank, seconds in late if seconds > 0.0]
    said = list(dict.fromkeys(note for one in times for note in one["timeline"]["notes"]))
    return joined_columns(columns), said


def _clocks_of(times: Sequence[Mapping[str, object]]) -> Clocks | None:
    """Return how the clocks of the ranks go; None of a run that was not recorded, which needs no tracing."""
    if any("timeline" not in one for one in times):
        return None
    from labkit.trace.recorder.timeline import clocks_of

    return clocks_of(times)


def _led_over(times: Mapping[str, Any], clocks: Clocks, rank: int) -> dict[str, object]:
    """Return a rank's times by the clock of rank 0."""
    begin, end = clocks.corrected(rank, [times["begin"], times["end"]]).tolist()
    phases = [
        (name, *clocks.corrected(rank, [first, last]).tolist(), depth)
        for name, first, last, depth in times["phases"]
    ]
    return {**times, "begin": begin, "end": end, "phases": phases}


def _starts(times: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[int]]) -> list[float]:
    """Return for each rank the moment from which its times count: the first entry on the clock it reads."""
    starts = [0.0] * len(times)
    for group in groups:
        first = min(times[rank]["begin"] for rank in group)
        for rank in group:
            starts[rank] = first
    return starts


def _printed(raw: bytes, share: Share, repetition: int) -> str:
    """Cut a repetition's part out of a rank's output; the last has the rest (what exit handlers print)."""
    begin = share[repetition - 1][0]["printed_bytes"] if repetition else 0
    end = share[repetition][0]["printed_bytes"] if repetition + 1 < len(share) else None
    return raw[begin:end].decode("utf-8", "replace")
