"""One launch on real MPI, from the request to the run."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.errors import MachineError, ProgramError, echoed
from labkit.place import check_place, describe_place, place_doubt
from labkit.process.given_input import given_input
from labkit.process.tree import JOB_VARIABLE
from labkit.real.cores import available_cores
from labkit.real.failure import interrupted
from labkit.real.mpi.find import Launcher, find_launcher
from labkit.real.mpi.hosts import HostFile, clocks, find_host_file, hosts_note, shared_cores
from labkit.real.mpi.launch import Launch, LaunchEnding
from labkit.real.mpi.report import failure, read_output
from labkit.real.shares import (
    Share,
    gather_runs,
    oversubscription,
    read_share,
    recorded_header,
    recording_for,
    run_of,
)
from labkit.real.travel import pack, pack_job
from labkit.request import RunRequest
from labkit.result import Run

__all__ = ["OUTPUT_LIMIT_BYTES", "ending_notes", "pack_launch", "run_ranks"]

#: what all ranks together may print, unless the caller says otherwise
OUTPUT_LIMIT_BYTES = 200_000_000


def run_ranks(request: RunRequest) -> Run:
    """Run a program once, or as often as asked, in one launch of mpiexec; see `labkit.run`.

    Raises
    ------
    ProgramError
        The program cannot travel.
    MachineError
        No MPI, a broken MPI, no space for temporary files.
    RankError
        A rank raised, exited, was killed, or returned something that cannot be sent back.
    TimeLimitError
        The limit was reached; the message says where each rank was.
    """
    own = request.options
    hosts = find_host_file(own.get("hostfile"))
    _check_host(request.ranks, hosts)
    if os.environ.get(JOB_VARIABLE):
        raise MachineError('this process is itself a rank of a run on="mpi", and cannot start another one')
    launcher = find_launcher(own.get("mpi"))
    switches = _switches(request, launcher)
    header, payload = pack_launch(request)
    recording = recording_for(request)
    header |= recorded_header(request, recording) | {"waits": hosts is None}
    limit_bytes = own.get("output_limit_bytes", OUTPUT_LIMIT_BYTES)
    with (
        given_input(own.get("stdin"), is_relayed=True) as stdin,
        Launch(launcher, request.ranks, header, payload, limit_bytes, hosts) as job,
    ):
        job.title = f"{request.name}, {request.ranks} ranks"
        job.stdin = stdin
        job.switches = switches
        if recording is not None:
            job.before_end = lambda: recording.ask(job.directory, job.ranks)
        try:
            ending = job.run(request.timeout_s)
        except KeyboardInterrupt:
            job.kill()
            raise interrupted(read_output(job)) from None
        error = failure(job, ending, request.timeout_s)
        if error is not None:
            if recording is not None and (left := recording.salvage(job.directory, job.ranks, str(error))):
                error.add_note(left)
            raise error
        runs = _read_runs(job, ending, request)
        forced = _forced_notes(request) if switches else []
        return run_of(runs, forced + (recording.collect(job.directory, job.ranks) if recording else []))


def _switches(request: RunRequest, launcher: Launcher) -> dict[str, str]:
    """Return what makes the library take algorithms of its own that were asked for."""
    if request.coll is None or not request.coll.forced:
        return {}
    # the selectors know all algorithms: most runs start without them
    from labkit.real.collectives.switches import environment_of

    return environment_of(request.coll.forced, launcher.kind)


def _forced_notes(request: RunRequest) -> list[str]:
    from labkit.real.collectives.switches import notes_of

    return notes_of(request.coll.forced)


def _check_host(ranks: int, hosts: HostFile | None) -> None:
    """Refuse more processes than this host could bear: it would stand still for everybody."""
    check_place(ranks)
    cores = hosts.total if hosts else available_cores()
    most = max(128, 16 * cores)
    if ranks > most:
        where = "the hosts of this file" if hosts else "this host"
        raise MachineError(
            f"{echoed(f'{ranks:,}')} ranks of real MPI are too many for {where}: "
            f"with {cores} cores at most {most:,} "
            'are started; simulate larger machines, for example with on="star"'
        )


def pack_launch(request: RunRequest) -> tuple[dict[str, Any], bytes]:
    """Pack a run for one launch of its own."""
    header, payload = pack_job(request, early_mpi=True)
    if request.coll is not None:
        header["coll"] = pack(request.coll)[0]
    if isinstance(request.program, Path):
        if request.repeats > 1:
            raise ProgramError(
                "a script ends MPI when it ends, so it runs once per launch; repeats needs a function"
            )
        # A script that configures mpi4py before it imports MPI must find MPI not yet started.
        source = request.program.read_text("utf-8", "replace")
        pattern = r"mpi4py\.rc|import\s+rc\b|\bMPI\.Init(_thread)?\("
        header["early_mpi"] = re.search(pattern, source) is None
    return header, payload


def _read_runs(job: Launch, ending: LaunchEnding, request: RunRequest) -> list[Run]:
    """Read all ranks' files and turn them into one run per repetition."""
    shares = [_read_rank(job, rank, request.repeats) for rank in range(job.ranks)]
    abouts = [share[0][0].get("about", {}) for share in shares]
    notes, is_valid = _validity(job.ranks, abouts)
    return gather_runs(
        shares, read_output(job), clocks(abouts), program=request.name, on="mpi",
        host_seconds=ending.host_seconds, machine=_machine(job.launcher, abouts),
        notes=notes + ending_notes(ending), is_valid=is_valid,
    )  # fmt: skip


def ending_notes(ending: LaunchEnding) -> list[str]:
    """Say what was odd about the end of a launch whose ranks have all finished."""
    if ending.reason == "lingered":
        return ["all ranks finished, but some did not leave MPI and were ended"]
    if ending.returncode:
        return [f"all ranks finished, then mpiexec ended with exit code {ending.returncode}"]
    return []


def _read_rank(job: Launch, rank: int, repeats: int) -> Share:
    try:
        with open(job.rank_file(rank, "result"), "rb") as file:
            return read_share(rank, file, repeats)
    except OSError as error:
        raise MachineError(f"the result of rank {rank} cannot be read: {error}") from error


def _validity(ranks: int, abouts: Sequence[Mapping[str, Any]]) -> tuple[list[str], bool]:
    notes = hosts_note(abouts)
    crowded = shared_cores(abouts) if notes else []
    cores = available_cores()
    if not notes and ranks > cores:
        crowded = [(ranks, cores, "")]
    notes += [oversubscription(*one) for one in crowded]
    doubt = place_doubt()
    return notes + ([doubt] if doubt else []), not crowded and not doubt


def _machine(launcher: Launcher, abouts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    hosts = sorted({str(about["host"]) for about in abouts if "host" in about})
    return {
        **({"hosts": hosts} if len(hosts) > 1 else {}),
        **describe_place(),
        "kind": "mpi",
        "mpi": launcher.describe(),
        "library": abouts[0].get("library"),
        "mpiexec": launcher.path,
        "host": platform.node(),
        "cores": available_cores(),
        "python": platform.python_version(),
    }
