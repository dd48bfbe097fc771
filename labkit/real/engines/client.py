"""One run on the MPI engines of an ipyparallel cluster, which stays usable."""

from __future__ import annotations

import os
import platform
import secrets
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from labkit.errors import MachineError
from labkit.place import describe_place, place_doubt
from labkit.real.engines.report import failure
from labkit.real.engines.target import ANSWER_S, Place, Target, choose, find_target
from labkit.real.engines.watch import Reports, watch
from labkit.real.shares import (
    gather_runs,
    oversubscription,
    read_result,
    recorded_header,
    recording_for,
    run_of,
)
from labkit.real.travel import pack_job
from labkit.request import RunRequest
from labkit.result import Run
from labkit.units import ranks_text

__all__ = ["run_on_engines"]

#: what all ranks together may print, unless the caller says otherwise
OUTPUT_LIMIT_BYTES = 50_000_000
#: runs that a communicator outlives, so that what is still under way arrives where it belongs
QUARANTINE_RUNS = 4


def run_on_engines(request: RunRequest) -> Run:
    """Run a program on the first engines of a cluster; see `labkit.run`.

    Raises
    ------
    ProgramError
        The program cannot travel.
    MachineError
        The cluster cannot be used: no MPI engines, too few, no answer, another version of labkit.
    RankError
        A rank raised, exited, died, or returned something that cannot be sent back.
    TimeLimitError
        The limit was reached; the message says where each rank was.
    """
    ranks, timeout_s = request.ranks, request.timeout_s
    limit_bytes = request.options.get("output_limit_bytes", OUTPUT_LIMIT_BYTES)
    header, payload = pack_job(
        request, path=[os.path.abspath(path) for path in sys.path], folder=os.getcwd(),
        run=secrets.token_hex(8), limit_s=timeout_s, output_limit_bytes=max(1, limit_bytes // ranks),
    )  # fmt: skip
    if isinstance(request.program, Path):
        header["script"] = str(request.program.resolve())
    recording = recording_for(request)
    header |= recorded_header(request, recording)
    target = find_target(request.on)
    memory = target.memory
    if not memory.lock.acquire(timeout=-1 if timeout_s is None else timeout_s):
        raise MachineError(
            f"another run has used this cluster for {timeout_s:g} s; wait for it, or start a second cluster"
        )
    try:
        title = f"{request.name}, {ranks:,} ranks"
        places, reports = _run(target, ranks, header, payload, timeout_s, title)
        error = failure(target, places, reports, timeout_s, header["output_limit_bytes"])
        if error is not None:
            if recording is not None and (
                left := recording.salvage_notes(_notes(reports), ranks, str(error))
            ):
                error.add_note(left)
            raise error
    finally:
        memory.lock.release()
    runs = _read_runs(places, reports, request.name, len(target.engines))
    return run_of(runs, recording.collect_notes(_notes(reports), ranks) if recording else ())


def _notes(reports: Reports) -> dict[int, Any]:
    """Return what the ranks of a recorded run have noted."""
    return {rank: one["trace"] for rank, one in reports.records.items() if one.get("trace")}


def _run(
    target: Target, ranks: int, header: dict[str, Any], payload: bytes, timeout_s: float | None, title: str
) -> tuple[list[Place], Reports]:
    """Look at the engines, run, and remember what the next run has to know."""
    memory = target.memory
    stuck = memory.stuck_ranks()
    if stuck:
        raise MachineError(
            f"{ranks_text(stuck)} of this cluster still {'hangs' if len(stuck) == 1 else 'hang'} in an "
            f"earlier run and cannot be interrupted; {target.restart_hint}"
        )
    places = choose(target.ask(ANSWER_S), ranks)
    clean = memory.clean.setdefault(ranks, [])
    free = clean[: max(0, len(clean) - QUARANTINE_RUNS)]
    header |= {"base": memory.bases.setdefault(ranks, secrets.token_hex(8)), "free": free}
    is_done = False
    try:
        reports = watch(target, places, header, payload, timeout_s, title)
        is_done = len(reports.records) == ranks and all(
            record["kind"] == "done" for record in reports.records.values()
        )
    finally:
        del clean[: len(free)]
        if not is_done:  # a collective may be half done: the ranks' own communicator is of no use any more
            memory.bases.pop(ranks, None)
            memory.clean.pop(ranks, None)
    if is_done and all(record["is_clean"] for record in reports.records.values()):
        clean.append(header["run"])
    return places, reports


def _read_runs(places: list[Place], reports: Reports, name: str, engines: int) -> list[Run]:
    """Turn the ranks' reports into one run per repetition."""
    records = [reports.records[place.rank] for place in places]
    shares = [
        [(times, read_result(rank, raw)) for times, raw in one["shares"]] for rank, one in enumerate(records)
    ]
    hosts = Counter(str(place.about["host"]) for place in places)
    notes, is_valid = _validity(places, hosts)
    notes += _left_behind(records)
    alone = None if len(hosts) == 1 else [[rank] for rank in range(len(places))]
    return gather_runs(
        shares, [one["output"] for one in records], alone, program=name,
        on="cluster", host_seconds=reports.host_seconds, machine=_machine(places, hosts, engines),
        notes=notes, is_valid=is_valid,
    )  # fmt: skip


def _validity(places: list[Place], hosts: Counter[str]) -> tuple[list[str], bool]:
    notes = []
    for host, ranks in hosts.items():
        cores = min(int(place.about["cores"]) for place in places if place.about["host"] == host)
        if ranks > cores:
            notes.append(oversubscription(ranks, cores, host if len(hosts) > 1 else ""))
    is_valid = not notes
    if len(hosts) > 1:
        notes.append(
            f"the ranks are on {len(hosts)} hosts with clocks of their own: each rank's times count from its "
            "own entry, just behind a barrier"
        )
    if doubt := place_doubt():
        notes.append(doubt)
    return notes, is_valid and doubt is None


def _left_behind(records: list[dict[str, Any]]) -> list[str]:
    """Say what the program left on the engines."""
    notes = []
    for rank, record in enumerate(records):
        for source, tag in record["leftover"]:
            notes.append(f"rank {rank} never received a message from rank {source} with tag {tag}")
        if record["threads"] > 0:
            notes.append(f"rank {rank} left {record['threads']} thread(s) running on its engine")
    return notes


def _machine(places: list[Place], hosts: Counter[str], engines: int) -> dict[str, Any]:
    return {
        **describe_place(),
        "kind": "cluster",
        "library": places[0].about["library"],
        "engines": engines,
        "host": ", ".join(hosts),
        "cores": min(int(place.about["cores"]) for place in places),
        "python": platform.python_version(),
    }
