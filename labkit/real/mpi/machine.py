"""Run a program on real MPI on this host, from a notebook or a script, and bring everything back."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.checks import check_limit, check_program, check_ranks, check_repeats, program_name
from labkit.errors import MachineError, ProgramError
from labkit.place import check_place, describe_place, place_doubt
from labkit.process.tree import JOB_VARIABLE
from labkit.real.cores import available_cores
from labkit.real.mpi.find import Launcher, find_launcher
from labkit.real.mpi.hosts import HostFile, clocks, find_host_file, hosts_note, shared_cores
from labkit.real.mpi.job import Job, Outcome
from labkit.real.mpi.report import failure, read_output
from labkit.real.shares import Share, gather_runs, read_share
from labkit.real.travel import pack_program, unwritten_sources
from labkit.result import Run, median_run

if TYPE_CHECKING:
    from labkit.trace.recorder.merge import Recording

__all__ = ["OUTPUT_LIMIT_BYTES", "ending_notes", "pack_job", "recording_for", "run_mpi"]

#: what all ranks together may print, unless the caller says otherwise
OUTPUT_LIMIT_BYTES = 200_000_000


def run_mpi(
    program: Callable[..., Any] | str | os.PathLike[str],
    ranks: int,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    trace: bool = False,
    timeout_s: float | None = 60.0,
    seed: int = 0,
    repeats: int = 1,
    mpi: str | None = None,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    hostfile: str | os.PathLike[str] | None = None,
    trace_ti: str | os.PathLike[str] | None = None,
    compute: str | None = None,
) -> Run:
    """Run a program on real MPI ranks of this host, or of the hosts of a file.

    The program is called after a barrier; the makespan runs from the first rank's entry to the last rank's
    exit on the host's monotonic clock, which all ranks share; on several hosts, whose clocks differ, it is
    the longest of theirs.

    Parameters
    ----------
    program : callable or path
        ``program(comm, *args, **kwargs)`` with ``comm`` mpi4py's ``COMM_WORLD``, or the path of an mpi4py
        script. A function travels by value (notebook cells, closures and lambdas too), labkit and installed
        packages by name; ``labkit.MPI`` is ``mpi4py.MPI`` in the ranks.
    ranks : int
        Number of ranks. More than the available cores work, but their times are not valid.
    args, kwargs
        Arguments after the communicator; for a script `args` is its command line.
    trace : bool
        Real runs record phases only; True adds a note that says so.
    timeout_s : float or None
        Limit of host time in seconds for the whole launch; None for no limit.
    seed : int
        Seeds ``random`` and ``numpy.random`` of each rank.
    repeats : int
        Runs the program so often inside one launch, each time with fresh arguments and the next seed.
    mpi : str, optional
        ``"bundled"``, ``"system"`` or the path of an mpiexec; default: the environment variable
        ``LABKIT_MPI``, then the bundled MPI.
    output_limit_bytes : int
        What all ranks together may print.
    hostfile : path, optional
        The hosts, as ``node1 slots=4`` on each line: reached by ssh, with labkit at the same place and a
        folder that all share (``LABKIT_MPI_FOLDER``, or where the file lies). Default: the environment
        variable ``LABKIT_MPI_HOSTFILE``, then this host.
    trace_ti : path, optional
        Write what each rank calls there, as a time-independent trace, as in `labkit.run`: mpi4py's calls are
        noted between the program and the library. A call that such a trace cannot express is refused.
    compute : str, optional
        What computation that trace has: ``"measured"`` (default), ``"measured:FACTOR"``, ``"charged"`` or
        ``"none"``.

    Returns
    -------
    Run
        The run; with `repeats` > 1 the one with the median makespan, all of them in its `repetitions`.

    Raises
    ------
    ProgramError
        The program cannot be called so, or cannot travel.
    MachineError
        No MPI, a broken MPI, no space for temporary files.
    RankError
        A rank raised, exited, was killed, or returned something that cannot be sent back.
    TimeLimitError
        The limit was reached; the message says where each rank was.
    """
    kwargs = dict(kwargs or {})
    check_ranks(ranks)
    check_limit(timeout_s)
    check_repeats(repeats)
    hosts = find_host_file(hostfile)
    _check_host(int(ranks), hosts)
    program = check_program(program, args, kwargs)
    if os.environ.get(JOB_VARIABLE):
        raise MachineError('this process is itself a rank of a run on="mpi", and cannot start another one')
    header, payload = pack_job(program, args, kwargs, repeats)
    header |= {"ranks": int(ranks), "seed": int(seed), "repeats": int(repeats)}
    recording = recording_for(trace_ti, compute, repeats)
    if recording is not None:
        header["recording"] = recording.header()
    launcher = find_launcher(mpi)
    with Job(launcher, int(ranks), header, payload, output_limit_bytes, hosts) as job:
        if recording is not None:
            job.before_end = lambda: recording.ask(job.directory, job.ranks)
        outcome = job.run(timeout_s)
        error = failure(job, outcome, timeout_s)
        if error is not None:
            if recording is not None and (left := recording.salvage(job.directory, job.ranks, str(error))):
                error.add_note(left)
            raise error
        runs = _read_runs(job, outcome, program_name(program), repeats)
        if recording is not None:
            runs[0].notes.extend(recording.collect(job.directory, job.ranks))
    run = median_run(runs)
    if trace:
        run.notes.append("real runs record phases only, no trace of messages")
    return run


def recording_for(target: Any, compute: str | None, repeats: int) -> Recording | None:
    """Read the options of a recorded run."""
    if target is None:
        return None
    from labkit.trace.recorder.merge import recording_of

    if repeats > 1:
        raise MachineError(f"trace_ti records one run, and repeats={repeats} asks for several; leave one out")
    return recording_of(target, compute)


def _check_host(ranks: int, hosts: HostFile | None) -> None:
    """Refuse more processes than this host could bear: it would stand still for everybody."""
    check_place(ranks)
    cores = hosts.total if hosts else available_cores()
    most = max(128, 16 * cores)
    if ranks > most:
        where = "the hosts of this file" if hosts else "this host"
        raise MachineError(
            f"{ranks:,} ranks of real MPI are too many for {where}: with {cores} cores at most {most:,} "
            'are started; simulate larger machines, for example with on="star"'
        )


def pack_job(
    program: Callable[..., Any] | Path, args: Sequence[Any], kwargs: Mapping[str, Any], repeats: int
) -> tuple[dict[str, Any], bytes]:
    """Pack a program for ranks of their own: what they must know before they unpack it, and its pickle."""
    header: dict[str, Any] = {"sources": unwritten_sources(), "early_mpi": True}
    if not isinstance(program, Path):
        return header | {"kind": "function"}, pack_program(program, args, kwargs)
    if kwargs:
        raise ProgramError("a script takes args only (its command line), no kwargs")
    if repeats > 1:
        raise ProgramError(
            "a script ends MPI when it ends, so it runs once per launch; repeats needs a function"
        )
    # A script that configures mpi4py before it imports MPI must find MPI not yet started.
    source = program.read_text("utf-8", "replace")
    early = re.search(r"mpi4py\.rc|import\s+rc\b|\bMPI\.Init(_thread)?\(", source) is None
    argv = [str(argument) for argument in args]
    return header | {"kind": "script", "script": str(program), "argv": argv, "early_mpi": early}, b""


def _read_runs(job: Job, outcome: Outcome, name: str, repeats: int) -> list[Run]:
    """Read all ranks' files and turn them into one run per repetition."""
    shares = [_read_rank(job, rank, repeats) for rank in range(job.ranks)]
    abouts = [share[0][0].get("about", {}) for share in shares]
    notes, is_valid = _validity(job.ranks, abouts)
    return gather_runs(
        shares, read_output(job), clocks(abouts), program=name, on="mpi", host_seconds=outcome.host_seconds,
        machine=_machine(job.launcher, abouts), notes=notes + ending_notes(outcome), is_valid=is_valid,
    )  # fmt: skip


def ending_notes(outcome: Outcome) -> list[str]:
    """Say what was odd about the end of a launch whose ranks have all finished."""
    if outcome.reason == "lingered":
        return ["all ranks finished, but some did not leave MPI and were ended"]
    if outcome.returncode:
        return [f"all ranks finished, then mpiexec ended with exit code {outcome.returncode}"]
    return []


def _read_rank(job: Job, rank: int, repeats: int) -> Share:
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
    for count, limit, name in crowded:
        where = f" of {name}" if name else ""
        notes.append(
            f"{count} ranks shared {limit} core{'s' if limit != 1 else ''}{where}: the times measure their "
            "taking turns"
        )
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
