"""The runs in a batch job's folder, or the error that says why there are none."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

from labkit import errors
from labkit.errors import LabkitError, MachineError, RankError, TimeLimitError
from labkit.real.mpi.hosts import clocks, hosts_note
from labkit.real.shares import Share, gather_runs, oversubscription, read_share
from labkit.real.slurm.commands import State
from labkit.real.slurm.options import Slurm
from labkit.real.slurm.store import JobFolder
from labkit.result import Run, median_run

if TYPE_CHECKING:
    from labkit.trace.recorder.merge import Recording

__all__ = ["collect_point", "lost_error", "status_error"]

#: states of a job that ended otherwise than by itself: what happened, and what to do about it
_ENDS = {
    "CANCELLED": "was cancelled{by}; run the same again to submit it anew",
    "TIMEOUT": "reached its time limit ({time}) and was ended by Slurm; give more time=",
    "DEADLINE": "reached its deadline and was ended by Slurm",
    "OUT_OF_MEMORY": "ran out of memory and was ended by Slurm; give more mem=, or fewer ranks_per_node",
    "NODE_FAIL": "lost one of its nodes; run the same again to submit it anew",
    "BOOT_FAIL": "got a node that did not boot; run the same again to submit it anew",
    "PREEMPTED": "was preempted by another one; run the same again to submit it anew",
    "REVOKED": "was revoked; run the same again to submit it anew",
}


def collect_point(
    job: JobFolder, number: int, status: dict[str, Any], recording: Recording | None = None
) -> Run:
    """Read the result of a point that has ended.

    Parameters
    ----------
    job : JobFolder
        The job.
    number : int
        Which of its points.
    status : dict
        How the point ended.
    recording : Recording, optional
        Where the trace of a recorded point goes.

    Returns
    -------
    Run
        With several repetitions that of the median makespan, all of them in its `repetitions`.

    Raises
    ------
    LabkitError
        The point failed, or its results cannot be read.
    """
    ranks = job.points[number]["ranks"]
    if status.get("state") != "done":
        error = status_error(job, number, status)
        if recording is not None:
            left = recording.salvage_notes(_notes(job, number), ranks, str(error))
            error.add_note(left or "nothing of its trace is left")
        raise error
    point, started = job.points[number], job.read("started.json")
    shares, output = _read_ranks(job, number, point["ranks"], point["repeats"])
    abouts = [share[0][0]["about"] for share in shares]
    notes, is_valid = _validity(abouts)
    machine = _machine(job, number, abouts[0], started)
    facts = {
        "program": job.about["program"], "on": job.about["label"],
        "host_seconds": float(status.get("host_seconds", 0.0)), "machine": machine,
        "notes": [*status.get("notes", []), *notes, *_sharing(started)], "is_valid": is_valid,
    }  # fmt: skip
    run = median_run(gather_runs(shares, output, clocks(abouts), **facts))
    if recording is not None:
        run.notes.extend(recording.collect_notes(_notes(job, number), ranks))
    return run


def status_error(job: JobFolder, number: int, status: dict[str, Any]) -> LabkitError:
    """Return the error that a point ended with, as it was raised in the job."""
    record = status.get("error", {})
    text = str(record.get("message", "no message"))
    if record.get("kind") == "RankError":
        error: LabkitError = RankError(int(record["rank"]), str(record["traceback"]), text)
    else:
        kind = getattr(errors, str(record.get("kind")), MachineError)
        error = kind(text) if issubclass(kind, LabkitError) else MachineError(text)
    printed = _printed(job, number)
    if any(printed):
        error.attach_output(printed)
    error.add_note(f"in Slurm job {job.job_id}, whose folder is {job.path}")
    return error


def lost_error(job: JobFolder, state: State | None) -> LabkitError:
    """Say why a job that is over has left no result.

    Parameters
    ----------
    job : JobFolder
        The job.
    state : State or None
        What Slurm says about it; None when it does not know it any more.
    """
    refused = job.refused()
    if refused:
        return MachineError(f"Slurm job {job.job_id} could not begin: {refused}")
    head = f"Slurm job {job.job_id} of {job.about['program']}"
    if state is None:
        return MachineError(
            f"{head} left no result, and Slurm does not know it any more; run the same again to "
            "submit it anew"
        )
    if state.word in _ENDS:
        by = f" ({state.reason})" if state.reason not in ("", "None", "Cancelled") else ""
        text = f"{head} {_ENDS[state.word].format(by=by, time=job.about['time_text'])}"
        return TimeLimitError(text) if state.word in ("TIMEOUT", "DEADLINE") else MachineError(text)
    if not job.read("started.json") and (state.exit_code == "0:53" or state.reason == "JobLaunchFailure"):
        return MachineError(
            f"{head} could not be started on its node ({state.reason}, exit code {state.exit_code}): most "
            f"likely the compute nodes do not see {str(job.path.parent)!r}, or cannot write there; give "
            "folder= on a file system that they share"
        )
    told = f"; its last words: {' '.join(job.printed(600).split())}" if job.printed() else ""
    reason = f", {state.reason}" if state.reason else ""
    return MachineError(
        f"{head} ended ({state.word}{reason}) without a result{told or ' or a word'}; {job.path} holds what "
        "it left (is the disk full, or the quota used up?)"
    )


def _read_ranks(job: JobFolder, number: int, ranks: int, repeats: int) -> tuple[list[Share], list[bytes]]:
    path = job.point(number) / "ranks.zip"
    try:
        with zipfile.ZipFile(path) as archive:
            shares = [
                read_share(rank, io.BytesIO(archive.read(f"rank-{rank}.result")), repeats)
                for rank in range(ranks)
            ]
            return shares, [archive.read(f"rank-{rank}.out") for rank in range(ranks)]
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise MachineError(f"the results in {str(path)!r} cannot be read: {error}") from error


def _notes(job: JobFolder, number: int) -> dict[int, tuple[bytes, dict[str, Any]]]:
    """Return what the ranks of a recorded point have noted."""
    found: dict[int, tuple[bytes, dict[str, Any]]] = {}
    try:
        with zipfile.ZipFile(job.point(number) / "ranks.zip") as archive:
            names = set(archive.namelist())
            for rank in range(job.points[number]["ranks"]):
                name = f"rank-{rank}.ti"
                if {name, f"{name}.json"} <= names:
                    found[rank] = archive.read(name), json.loads(archive.read(f"{name}.json"))
    except (OSError, ValueError, zipfile.BadZipFile):
        return {}
    return found


def _printed(job: JobFolder, number: int) -> list[str]:
    """Return what the ranks of a failed point had printed; nothing where that is lost."""
    try:
        with zipfile.ZipFile(job.point(number) / "ranks.zip") as archive:
            names = set(archive.namelist())
            wanted = [f"rank-{rank}.out" for rank in range(job.points[number]["ranks"])]
            return [archive.read(name).decode("utf-8", "replace") if name in names else "" for name in wanted]
    except (OSError, zipfile.BadZipFile):
        return []


def _validity(abouts: list[dict[str, Any]]) -> tuple[list[str], bool]:
    """Say whether each rank had a core of its own: Slurm binds ranks, so each may name other ones."""
    notes, is_valid = hosts_note(abouts), True
    for ranks in clocks(abouts):
        cores: set[int] = set().union(*(abouts[rank]["affinity"] for rank in ranks))
        if len(ranks) > len(cores):
            is_valid = False
            notes.append(oversubscription(len(ranks), len(cores), abouts[ranks[0]]["host"]))
    return notes, is_valid


def _sharing(started: dict[str, Any]) -> list[str]:
    """Say when other jobs may have been on the nodes."""
    if not started.get("is_shared"):
        return []
    return ["the job had a part of its nodes, beside whoever had the rest; exclusive=True reserves them"]


def _machine(job: JobFolder, number: int, about: dict[str, Any], started: dict[str, Any]) -> dict[str, Any]:
    names = ("cluster", "partition", "node_list", "mpi", "mpiexec")
    nodes = Slurm(**job.about["options"]).node_count(job.points[number]["ranks"])
    return {
        "kind": "slurm",
        "job": job.job_id,
        "nodes": nodes or started.get("nodes"),
        **{name: started.get(name) for name in names},
        "library": about.get("library"),
        "host": about["host"],
        "python": job.about["python"],
        "folder": str(job.path),
    }
