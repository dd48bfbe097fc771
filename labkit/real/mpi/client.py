"""One launch on real MPI, from the request to the run."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.errors import LabkitError, MachineError, ProgramError, RankError, TimeLimitError, echoed
from labkit.process.child import given_input
from labkit.process.stacks import read_stack
from labkit.process.tree import JOB_VARIABLE
from labkit.real.context import available_cores
from labkit.real.failure import (
    Ending,
    Where,
    first_error,
    interrupted,
    printed_too_much,
    read_ending,
    stopped,
    telling_line,
    too_late,
    with_output,
)
from labkit.real.host_limits import check_place, describe_place, place_doubt
from labkit.real.mpi.find import Launcher, find_launcher
from labkit.real.mpi.hosts import HostFile, clocks, find_host_file, hosts_note, shared_cores
from labkit.real.mpi.launch import Launch, LaunchEnding
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
from labkit.text.units import ranks_text

__all__ = ["OUTPUT_LIMIT_BYTES", "ending_notes", "launch_failure", "pack_launch", "run_ranks"]

#: what all ranks together may print, unless the caller says otherwise
OUTPUT_LIMIT_BYTES = 200_000_000


# The error of a failed job: which rank, where and why, out of all files.

#: bytes that a launch with a few ranks needs at the least for the launcher's session and the ranks' files
_ROOM = 256 * 1024

#: what Open MPI says when a rank on another host is no more
_BROKEN = "Socket closed"


def launch_failure(job: Launch, end: LaunchEnding, timeout_s: float | None) -> LabkitError | None:
    """Find out why a job failed."""
    done = [job.rank_file(rank, "done").exists() for rank in range(job.ranks)]
    error = first_error(_error_records(job), f" (launched by {job.launcher.path}); see labkit doctor")
    if error is not None:
        return with_output(error, _kept_output(job))
    if all(done):
        aborted = _aborted_at_exit(job) if end.returncode else None
        return aborted and with_output(aborted, _kept_output(job))
    if end.reason == "time":
        error = _too_late(job, done, timeout_s)
    elif end.reason == "deadlock" and job.blame is not None:
        error = job.blame
    elif end.reason == "output":
        error = printed_too_much("the ranks", job.output_limit_bytes)
    else:
        error = _full_disk(job) or _from_launcher(job, end, done)
    return with_output(error, _kept_output(job))


def _aborted_at_exit(job: Launch) -> LabkitError | None:
    """Return the error of a rank that called Abort after its program had ended, in an exit handler."""
    printed = b"\n".join(read_output(job)).decode("utf-8", "replace")
    ending = read_ending(f"{job.launcher_text()}\n{printed}", {})
    if ending is None or not ending.abort:
        return None
    return RankError(
        ending.rank, ending.text(), f"rank {ending.rank} {ending.text()}", abort_code=ending.abort
    )


def read_output(job: Launch) -> list[bytes]:
    """Read what each rank printed, in rank order: bytes, for a program may print anything."""
    printed = []
    for rank in range(job.ranks):
        said = b""
        for kind in ("out", "err"):
            with contextlib.suppress(OSError):
                said += job.rank_file(rank, kind).read_bytes()
        printed.append(said)
    printed[0] += job.spawned_output()  # it came through mpiexec, which says not from whom
    return printed


def _kept_output(job: Launch) -> list[bytes]:
    """Return what is still to be shown of what each rank printed: nothing where it was passed on."""
    return [b""] * job.ranks if job.is_stream else read_output(job)


def _error_records(job: Launch) -> list[dict[str, object]]:
    """Read how ranks failed."""
    records = []
    for rank in range(-1, job.ranks):  # -1: a rank that could not find out which it is
        try:
            records.append(json.loads(job.rank_file(rank, "error").read_text("utf-8")))
        except (OSError, ValueError):
            continue
    return records


def _too_late(job: Launch, done: list[bool], timeout_s: float | None) -> TimeLimitError:
    """Report where each rank was at the time limit."""
    if not any(done) and not any(job.rank_file(rank, "pid").exists() for rank in range(job.ranks)):
        return TimeLimitError(
            f"no rank had started within {timeout_s:g} s ({job.launcher.path} was ended); see labkit doctor"
        )

    def where(rank: int) -> Where:
        if done[rank]:
            return "had finished"
        if not job.rank_file(rank, "pid").exists():
            return "had not started"
        stack = tuple(read_stack(job.rank_file(rank, "stack")))
        if rank in job.stopped:
            return stopped(stack)
        return stack or "was outside the program (starting or leaving MPI)"

    return too_late(timeout_s, ((rank, where(rank)) for rank in range(job.ranks)))


def _full_disk(job: Launch) -> MachineError | None:
    """Blame the disk for ranks that vanished where it has no room for a page of their files."""
    try:
        disk = os.statvfs(job.directory)
    except (OSError, AttributeError):
        return None
    left = disk.f_bavail * disk.f_frsize
    if left >= _ROOM:
        return None
    return MachineError(
        f"the ranks ended without a result, and {os.path.dirname(job.directory)} has only {left} bytes left; "
        "free some space, or set TMPDIR to a folder that can be written",
        code="lost-process",
    )


def _from_launcher(job: Launch, end: LaunchEnding, done: list[bool]) -> LabkitError:
    """Name the rank that vanished silently, from the launcher's output."""
    text = job.launcher_text()
    started = {}
    for rank in range(job.ranks):
        try:
            started[int(job.rank_file(rank, "pid").read_text().split()[0])] = rank
        except (OSError, ValueError, IndexError):
            continue
    if not started:
        return MachineError(
            f"{job.launcher.path} failed before any rank started (exit code {end.returncode}): "
            f"{telling_line(text)}; see labkit doctor",
            code="not-started",
        )
    printed = b"\n".join(read_output(job)).decode("utf-8", "replace")
    ending = read_ending(f"{text}\n{printed}", started)
    missing = [rank for rank, is_done in enumerate(done) if not is_done]
    if ending is None and len(missing) == 1:
        ending = Ending(missing[0], status=end.returncode)
    if ending is None and _BROKEN in text + printed:  # the others saw it before the launcher did
        return MachineError(
            f"the connection to a rank broke, and {ranks_text(missing)} ended without a result: a rank was "
            "killed, or its host was lost; where nobody did that, a machine ran out of memory",
            code="lost-process",
        )
    if ending is None:
        return MachineError(
            f"{ranks_text(missing)} ended without a result (exit code of mpiexec: {end.returncode}): "
            f"{telling_line(text)}",
            code="lost-process",
        )
    where = "\n".join(frame.text() for frame in read_stack(job.rank_file(ending.rank, "stack")))
    message = f"rank {ending.rank} {ending.text()}" + (f"; it was at\n{where}" if where else "")
    said = f"{where}\n{ending.text()}" if where else ending.text()
    return RankError(ending.rank, said, message, abort_code=ending.abort)


def run_ranks(request: RunRequest) -> Run:
    """Run a program once, or as often as asked, in one launch of mpiexec; see `labkit.run`."""
    own = request.options
    hosts = find_host_file(own.get("hostfile"))
    _check_host(request.ranks, hosts)
    if os.environ.get(JOB_VARIABLE):
        raise MachineError(
            'this process is itself a rank of a run on="mpi", and cannot start another one', code="nested-run"
        )
    launcher = find_launcher(own.get("mpi"))
    switches, forced = _forced(request, launcher)
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
        job.is_stream = bool(own.get("stream"))
        job.switches = switches
        if recording is not None:
            job.before_end = lambda: recording.ask(job.directory, job.ranks)
        try:
            ending = job.run(request.timeout_s)
        except KeyboardInterrupt:
            job.kill()
            raise interrupted(_kept_output(job)) from None
        error = launch_failure(job, ending, request.timeout_s)
        if error is not None:
            if recording is not None and (left := recording.salvage(job.directory, job.ranks, str(error))):
                error.add_note(left)
            raise error
        runs = _read_runs(job, ending, request)
        return run_of(runs, forced + (recording.collect(job.directory, job.ranks) if recording else []))


def _forced(request: RunRequest, launcher: Launcher) -> tuple[dict[str, str], list[str]]:
    """Return what makes the library take its own algorithms that were asked for, and notes on them."""
    if request.coll is None or not request.coll.forced:
        return {}, []
    # the selectors know all algorithms: most runs start without them
    from labkit.selector.libraries import environment_of, notes_of

    return environment_of(request.coll.forced, launcher.kind), notes_of(request.coll.forced)


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
            'are started; simulate larger machines, for example with on="star"',
            code="too-many-ranks",
        )


def pack_launch(request: RunRequest) -> tuple[dict[str, Any], bytes]:
    """Pack a run for its own launch."""
    header, payload = pack_job(request, early_mpi=True)
    if request.coll is not None:
        header["coll"] = pack(request.coll)[0]
    if isinstance(request.program, Path):
        if request.repeats > 1:
            raise ProgramError(
                "a script ends MPI when it ends, so it runs once per launch; repeats needs a function",
                code="conflicting-options",
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
        shares,
        _kept_output(job),
        clocks(abouts),
        program=request.name,
        on="mpi",
        host_seconds=ending.host_seconds,
        machine=_machine(job.launcher, abouts),
        notes=notes + ending_notes(ending),
        is_valid=is_valid,
    )


def ending_notes(ending: LaunchEnding) -> list[str]:
    """Return as sentences what was odd about the end of a launch whose ranks have all finished."""
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
        raise MachineError(
            f"the result of rank {rank} cannot be read: {error}", code="lost-result"
        ) from error


def _validity(ranks: int, abouts: Sequence[Mapping[str, object]]) -> tuple[list[str], bool]:
    notes = hosts_note(abouts)
    crowded = shared_cores(abouts) if notes else []
    cores = available_cores()
    if not notes and ranks > cores:
        crowded = [(ranks, cores, "")]
    notes += [oversubscription(*one) for one in crowded]
    doubt = place_doubt()
    return notes + ([doubt] if doubt else []), not crowded and not doubt


def _machine(launcher: Launcher, abouts: Sequence[Mapping[str, object]]) -> dict[str, object]:
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
