"""The error of a failed job: which rank, where and why, out of all files."""

from __future__ import annotations

import json
import os
from typing import Any

from labkit.errors import (
    LabkitError,
    MachineError,
    RankError,
    TimeLimitError,
)
from labkit.process.stacks import read_stack
from labkit.real.failure import Where, first_error, printed_too_much, stopped, too_late, with_output
from labkit.real.mpi.endings import Ending, read_ending, telling_line
from labkit.real.mpi.launch import Launch, LaunchEnding
from labkit.units import ranks_text

__all__ = ["failure", "read_output"]

#: bytes that a launch with a few ranks needs at the least for the launcher's session and the ranks' files
_ROOM = 256 * 1024
#: what Open MPI says when a rank on another host is no more
_BROKEN = "Socket closed"


def failure(job: Launch, end: LaunchEnding, timeout_s: float | None) -> LabkitError | None:
    """Find out why a job failed.

    Parameters
    ----------
    job : Launch
        The job, ended, its directory still there.
    end : LaunchEnding
        How it ended.
    timeout_s : float or None
        Its time limit.

    Returns
    -------
    LabkitError or None
        The error to raise, with what the ranks had printed as its `output`; None when every rank finished.
    """
    done = [job.rank_file(rank, "done").exists() for rank in range(job.ranks)]
    error = first_error(_error_records(job), f" (launched by {job.launcher.path}); see labkit doctor")
    if error is not None:
        return with_output(error, read_output(job))
    if all(done):
        aborted = _aborted_at_exit(job) if end.returncode else None
        return aborted and with_output(aborted, read_output(job))
    if end.reason == "time":
        error = _too_late(job, done, timeout_s)
    elif end.reason == "deadlock" and job.blame is not None:
        error = job.blame
    elif end.reason == "output":
        error = printed_too_much("the ranks", job.output_limit_bytes)
    else:
        error = _full_disk(job) or _from_launcher(job, end, done)
    return with_output(error, read_output(job))


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
        try:
            printed.append(job.rank_file(rank, "out").read_bytes())
        except OSError:
            printed.append(b"")
    printed[0] += job.spawned_output()  # it came through mpiexec, which says not from whom
    return printed


def _error_records(job: Launch) -> list[dict[str, Any]]:
    """Read how ranks failed."""
    records = []
    for rank in range(-1, job.ranks):  # -1: a rank that could not find out which it is
        try:
            records.append(json.loads(job.rank_file(rank, "error").read_text("utf-8")))
        except (OSError, ValueError):
            continue
    return records


def _too_late(job: Launch, done: list[bool], timeout_s: float | None) -> TimeLimitError:
    """Say where each rank was at the time limit."""
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
        "free some space, or set TMPDIR to a folder that can be written"
    )


def _from_launcher(job: Launch, end: LaunchEnding, done: list[bool]) -> LabkitError:
    """Name the rank that vanished without a word, from what the launcher saw."""
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
            f"{telling_line(text)}; see labkit doctor"
        )
    printed = b"\n".join(read_output(job)).decode("utf-8", "replace")
    ending = read_ending(f"{text}\n{printed}", started)
    missing = [rank for rank, is_done in enumerate(done) if not is_done]
    if ending is None and len(missing) == 1:
        ending = Ending(missing[0], status=end.returncode)
    if ending is None and _BROKEN in text + printed:  # the others saw it before the launcher did
        return MachineError(
            f"the connection to a rank broke, and {ranks_text(missing)} ended without a result: a rank was "
            "killed, or its host was lost; where nobody did that, a machine ran out of memory"
        )
    if ending is None:
        return MachineError(
            f"{ranks_text(missing)} ended without a result (exit code of mpiexec: {end.returncode}): "
            f"{telling_line(text)}"
        )
    where = "\n".join(frame.text() for frame in read_stack(job.rank_file(ending.rank, "stack")))
    message = f"rank {ending.rank} {ending.text()}" + (f"; it was at\n{where}" if where else "")
    said = f"{where}\n{ending.text()}" if where else ending.text()
    return RankError(ending.rank, said, message, abort_code=ending.abort)
