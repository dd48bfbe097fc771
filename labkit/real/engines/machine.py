"""Run a program on the MPI engines of a running ipyparallel cluster, and leave the cluster usable."""

from __future__ import annotations

import os
import platform
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.checks import check_limit, check_program, check_ranks, check_repeats, program_name
from labkit.errors import MachineError, ProgramError
from labkit.place import describe_place, place_doubt
from labkit.process.stacks import ranks_text
from labkit.real.engines.report import failure
from labkit.real.engines.target import ANSWER_S, Place, Target, choose, find_target
from labkit.real.engines.watch import Outcome, watch
from labkit.real.mpi.machine import recording_for
from labkit.real.shares import gather_runs, read_result
from labkit.real.travel import pack_program, unwritten_sources
from labkit.result import Run, median_run

__all__ = ["run_cluster"]

#: what all ranks together may print, unless the caller says otherwise
OUTPUT_LIMIT_BYTES = 50_000_000
#: runs that a communicator outlives, so that what is still under way arrives where it belongs
QUARANTINE_RUNS = 4


def run_cluster(
    program: Callable[..., Any] | str | os.PathLike[str],
    ranks: int,
    on: Any,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    trace: bool = False,
    timeout_s: float | None = 60.0,
    seed: int = 0,
    repeats: int = 1,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    trace_ti: str | os.PathLike[str] | None = None,
    compute: str | None = None,
) -> Run:
    """Run a program on the first ranks of a running cluster of MPI engines.

    The program's communicator, and ``MPI.COMM_WORLD`` while it runs, is a duplicate of these ranks' own
    communicator; its blocking calls are made of nonblocking ones, so that they can be interrupted: about a
    microsecond more for each. A rank that is blocked in other C code cannot be interrupted; the error then
    says which, and the engines have to be restarted.

    Between runs the engines keep what a program changed in installed packages, the threads it left running,
    and their own environment variables; its modules, folder, search path, random numbers and messages go.

    Parameters
    ----------
    program : callable or path
        ``program(comm, *args, **kwargs)``, or the path of an mpi4py script that the engines can read.
    ranks : int
        Number of ranks, at most the number of engines.
    on : Cluster, Client, DirectView or LocalCluster
        The cluster, of `ipyparallel` or of `labkit.cluster`.
    args, kwargs
        Arguments after the communicator; for a script `args` is its command line.
    trace : bool
        Real runs record phases only; True adds a note that says so.
    timeout_s : float or None
        Limit of host time in seconds; None for no limit.
    seed : int
        Seeds ``random`` and ``numpy.random`` of each rank.
    repeats : int
        Runs the program so often, each time with fresh arguments and the next seed.
    output_limit_bytes : int
        What all ranks together may print.
    trace_ti, compute
        Write what each rank calls, as a time-independent trace: as in `labkit.real.mpi.machine.run_mpi`.

    Returns
    -------
    Run
        The run; with `repeats` > 1 the one with the median makespan, all of them in its `repetitions`.

    Raises
    ------
    ProgramError
        The program cannot be called so, or cannot travel.
    MachineError
        The cluster cannot be used: no MPI engines, too few, no answer, another version of labkit.
    RankError
        A rank raised, exited, died, or returned something that cannot be sent back.
    TimeLimitError
        The limit was reached; the message says where each rank was.
    """
    kwargs = dict(kwargs or {})
    check_ranks(ranks)
    check_limit(timeout_s)
    check_repeats(repeats)
    program = check_program(program, args, kwargs)
    header, payload = _pack(program, args, kwargs)
    header |= {"ranks": int(ranks), "seed": int(seed), "repeats": int(repeats), "limit_s": timeout_s}
    header |= {"output_limit_bytes": max(1, output_limit_bytes // int(ranks))}
    recording = recording_for(trace_ti, compute, repeats)
    if recording is not None:
        header["recording"] = recording.header()
    target = find_target(on)
    memory = target.memory
    if not memory.lock.acquire(timeout=-1 if timeout_s is None else timeout_s):
        raise MachineError(
            f"another run has used this cluster for {timeout_s:g} s; wait for it, or start a second cluster"
        )
    try:
        places, outcome = _run(target, int(ranks), header, payload, timeout_s)
        error = failure(target, places, outcome, timeout_s, header["output_limit_bytes"])
        if error is not None:
            if recording is not None and (
                left := recording.salvage_notes(_notes(outcome), ranks, str(error))
            ):
                error.add_note(left)
            raise error
    finally:
        memory.lock.release()
    runs = _read_runs(places, outcome, program_name(program), len(target.engines))
    if recording is not None:
        runs[0].notes.extend(recording.collect_notes(_notes(outcome), ranks))
    run = median_run(runs)
    if trace:
        run.notes.append("real runs record phases only, no trace of messages")
    return run


def _notes(outcome: Outcome) -> dict[int, Any]:
    """Return what the ranks of a recorded run have noted."""
    return {rank: one["trace"] for rank, one in outcome.records.items() if one.get("trace")}


def _pack(
    program: Callable[..., Any] | Path, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], bytes]:
    header: dict[str, Any] = {
        "sources": unwritten_sources(),
        "path": [os.path.abspath(path) for path in sys.path],
        "folder": os.getcwd(),
        "run": secrets.token_hex(8),
    }
    if not isinstance(program, Path):
        return header | {"kind": "function"}, pack_program(program, args, kwargs)
    if kwargs:
        raise ProgramError("a script takes args only (its command line), no kwargs")
    argv = [str(argument) for argument in args]
    return header | {"kind": "script", "script": str(program.resolve()), "argv": argv}, b""


def _run(
    target: Target, ranks: int, header: dict[str, Any], payload: bytes, timeout_s: float | None
) -> tuple[list[Place], Outcome]:
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
        outcome = watch(target, places, header, payload, timeout_s)
        is_done = len(outcome.records) == ranks and all(
            record["status"] == "done" for record in outcome.records.values()
        )
    finally:
        del clean[: len(free)]
        if not is_done:  # a collective may be half done: the ranks' own communicator is of no use any more
            memory.bases.pop(ranks, None)
            memory.clean.pop(ranks, None)
    if is_done and all(record["is_clean"] for record in outcome.records.values()):
        clean.append(header["run"])
    return places, outcome


def _read_runs(places: list[Place], outcome: Outcome, name: str, engines: int) -> list[Run]:
    """Turn the ranks' reports into one run per repetition."""
    records = [outcome.records[place.rank] for place in places]
    shares = [
        [(times, read_result(rank, raw)) for times, raw in one["shares"]] for rank, one in enumerate(records)
    ]
    hosts = Counter(str(place.about["host"]) for place in places)
    notes, is_valid = _validity(places, hosts)
    notes += _left_behind(records)
    alone = None if len(hosts) == 1 else [[rank] for rank in range(len(places))]
    return gather_runs(
        shares, [one["output"] for one in records], alone, program=name,
        on="cluster", host_seconds=outcome.host_seconds, machine=_machine(places, hosts, engines),
        notes=notes, is_valid=is_valid,
    )  # fmt: skip


def _validity(places: list[Place], hosts: Counter[str]) -> tuple[list[str], bool]:
    notes, is_valid = [], True
    for host, ranks in hosts.items():
        cores = min(int(place.about["cores"]) for place in places if place.about["host"] == host)
        if ranks > cores:
            where = f" of {host}" if len(hosts) > 1 else ""
            plural = "s" if cores != 1 else ""
            notes.append(
                f"{ranks} ranks shared {cores} core{plural}{where}: the times measure their taking turns"
            )
            is_valid = False
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
