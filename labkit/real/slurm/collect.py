"""The runs in a batch job's folder, or the error that explains their absence."""

from __future__ import annotations

import io
import json
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from labkit import errors
from labkit.errors import LabkitError, MachineError, RankError, TimeLimitError
from labkit.real.mpi.hosts import clocks, hosts_note
from labkit.real.shares import Share, gather_runs, oversubscription, read_share
from labkit.real.slurm.commands import JobState, SilentError, job_details, job_states
from labkit.real.slurm.options import Slurm
from labkit.real.slurm.store import JobFolder
from labkit.result import Run, median_run
from labkit.text.files import DAMAGED

if TYPE_CHECKING:
    from labkit.trace.recorder.merge import Recording

__all__ = ["Line", "WaitError", "Watch", "collect_point", "lost_error", "status_error"]

#: states of a job that ended otherwise than by itself: what happened, and what to do about it
_ENDS = {
    "CANCELLED": "was cancelled{by}; run the same call again to resubmit it",
    "TIMEOUT": "reached its time limit ({time}) and was ended by Slurm; give more time=",
    "DEADLINE": "reached its deadline and was ended by Slurm",
    "OUT_OF_MEMORY": "ran out of memory and was ended by Slurm; give more mem=, or fewer ranks_per_node",
    "NODE_FAIL": "lost one of its nodes; run the same call again to resubmit it",
    "BOOT_FAIL": "got a node that did not boot; run the same call again to resubmit it",
    "PREEMPTED": "was preempted by another one; run the same call again to resubmit it",
    "REVOKED": "was revoked; run the same call again to resubmit it",
}


def collect_point(
    job: JobFolder, number: int, status: dict[str, Any], recording: Recording | None = None
) -> Run:
    """Read the result of a point that has ended."""
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
        "program": job.about["program"],
        "on": job.about["label"],
        "host_seconds": float(status.get("host_seconds", 0.0)),
        "machine": machine,
        "notes": [*status.get("notes", []), *notes, *_sharing(started)],
        "is_valid": is_valid,
    }
    run = median_run(gather_runs(shares, output, clocks(abouts), **facts))
    if recording is not None:
        run.notes.extend(recording.collect_notes(_notes(job, number), ranks))
    return run


def status_error(job: JobFolder, number: int, status: dict[str, Any]) -> LabkitError:
    """Return the error that a point ended with, as it was raised in the job."""
    record = status.get("error", {})
    text, code = str(record.get("message", "no message")), record.get("code")
    if record.get("kind") == "RankError":
        error: LabkitError = RankError(int(record["rank"]), str(record["traceback"]), text, code=code)
    else:
        kind = getattr(errors, str(record.get("kind")), MachineError)
        error = (kind if issubclass(kind, LabkitError) else MachineError)(text, code=code)
    printed = _printed(job, number)
    if any(printed):
        error.attach_output(printed)
    error.add_note(f"in Slurm job {job.job_id}, whose folder is {job.path}")
    return error


def lost_error(job: JobFolder, state: JobState | None) -> LabkitError:
    """Explain why a job that is over has left no result."""
    refused = job.refused()
    if refused:
        return MachineError(f"Slurm job {job.job_id} could not begin: {refused}", code="scheduler-failed")
    head = f"Slurm job {job.job_id} of {job.about['program']}"
    if state is None:
        return MachineError(
            f"{head} left no result, and Slurm no longer lists it; run the same call again to resubmit it",
            code="scheduler-failed",
        )
    if state.word in _ENDS:
        by = f" ({state.reason})" if state.reason not in ("", "None", "Cancelled") else ""
        text = f"{head} {_ENDS[state.word].format(by=by, time=job.about['time_text'])}"
        return TimeLimitError(text) if state.word in ("TIMEOUT", "DEADLINE") else MachineError(text)
    if not job.read("started.json") and (state.exit_code == "0:53" or state.reason == "JobLaunchFailure"):
        return MachineError(
            f"{head} could not be started on its node ({state.reason}, exit code {state.exit_code}): most "
            f"likely the compute nodes do not see {str(job.path.parent)!r}, or cannot write there; give "
            "folder= on a file system that they share",
            code="not-started",
        )
    told = f"; its last output: {' '.join(job.printed(600).split())}" if job.printed() else ""
    reason = f", {state.reason}" if state.reason else ""
    return MachineError(
        f"{head} ended ({state.word}{reason}) without a result{told or ' or output'}; {job.path} holds what "
        "it left (is the disk full, or the quota used up?)",
        code="lost-process",
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
    except DAMAGED as error:
        raise MachineError(
            f"the results in {str(path)!r} cannot be read: {error}", code="lost-result"
        ) from error


def _notes(job: JobFolder, number: int) -> dict[int, tuple[bytes, dict[str, Any]]]:
    """Return what the ranks of a recorded point have noted."""
    found: dict[int, tuple[bytes, dict[str, object]]] = {}
    try:
        with zipfile.ZipFile(job.point(number) / "ranks.zip") as archive:
            names = set(archive.namelist())
            for rank in range(job.points[number]["ranks"]):
                name = f"rank-{rank}.ti"
                if {name, f"{name}.json"} <= names:
                    found[rank] = archive.read(name), json.loads(archive.read(f"{name}.json"))
    except DAMAGED:
        return {}
    return found


def _printed(job: JobFolder, number: int) -> list[str]:
    """Return what the ranks of a failed point had printed; nothing where that is lost."""
    try:
        with zipfile.ZipFile(job.point(number) / "ranks.zip") as archive:
            names = set(archive.namelist())
            wanted = [f"rank-{rank}.out" for rank in range(job.points[number]["ranks"])]
            return [archive.read(name).decode("utf-8", "replace") if name in names else "" for name in wanted]
    except DAMAGED:
        return []


def _validity(abouts: list[dict[str, Any]]) -> tuple[list[str], bool]:
    """Report whether each rank had its own core: Slurm binds ranks, so each may name other ones."""
    notes, is_valid = hosts_note(abouts), True
    for ranks in clocks(abouts):
        cores: set[int] = set().union(*(abouts[rank]["affinity"] for rank in ranks))
        if len(ranks) > len(cores):
            is_valid = False
            notes.append(oversubscription(len(ranks), len(cores), abouts[ranks[0]]["host"]))
    return notes, is_valid


def _sharing(started: dict[str, object]) -> list[str]:
    """Return as sentences when other jobs may have been on the nodes."""
    if not started.get("is_shared"):
        return []
    return ["the job shared its nodes with other jobs; exclusive=True reserves them"]


def _machine(
    job: JobFolder, number: int, about: dict[str, Any], started: dict[str, object]
) -> dict[str, object]:
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


# Wait for jobs: look at their folders often, ask Slurm rarely, and say what they wait for.

#: pauses between looks at the folder, and between questions to Slurm: the first, and the longest
LOOK_S, ASK_S = (0.2, 3.0), (1.0, 15.0)

#: how long the results of a job that is over may be on their way through the shared file system
LATE_S = {"COMPLETED": 30.0, "FAILED": 10.0}

LATE_OTHERWISE_S = 3.0

#: how long Slurm may stay silent
SILENT_S = 900.0


class WaitError(TimeLimitError):
    """Nobody waits any longer, and the jobs go on."""


class Line:
    """One line on standard error that is written over: shown where somebody watches."""

    def __init__(self, is_shown: bool | None = None) -> None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        self._is_shown = (hasattr(shell, "kernel") or sys.stderr.isatty()) if is_shown is None else is_shown
        self._width = 0

    def __call__(self, text: str) -> None:
        """Show `text` instead of what was shown before; empty: nothing."""
        if not self._is_shown or (not text and not self._width):
            return
        sys.stderr.write(f"\r{text:<{self._width}}" + ("" if text else "\r"))
        sys.stderr.flush()
        self._width = len(text)


class Watch:
    """Waits for points of some jobs.

    `jobs`: The jobs.
    `tell`: Gets a line on how they are doing.
    `wait_s`: Limit of the wait for all of them, in seconds.
    """

    def __init__(self, jobs: Iterable[JobFolder], tell: Callable[[str], None], wait_s: float | None) -> None:
        self.jobs = list(jobs)
        self.tell = tell
        self._begin = time.monotonic()
        self._wait_s = wait_s
        self._states: dict[str, JobState] = {}
        self._over: dict[str, float] = {}
        self._next_ask = 0.0
        self._ask_pause, self._answered = ASK_S[0], self._begin

    def status(self, job: JobFolder, number: int) -> dict[str, Any]:
        """Wait until a point has ended, and return how.

        Raises LabkitError: Its job is over without it, the wait is, or Slurm has not answered for long.
        """
        pause = LOOK_S[0]
        try:
            while True:
                status = job.status(number)
                if status:
                    return status
                self._ask()
                self._check(job, number)
                self.tell(self.text())
                time.sleep(pause)
                pause = min(LOOK_S[1], pause * 1.2)
        finally:
            self.tell("")

    def text(self) -> str:
        """Summarize in one line how the jobs are doing."""
        states = [self._states.get(job.job_id or "", JobState("UNKNOWN")) for job in self.jobs]
        counts = Counter(state.word.lower() for state in states if not state.is_over)
        passed = time.strftime("%H:%M:%S", time.gmtime(time.monotonic() - self._begin))
        if len(self.jobs) == 1:
            head = f"Slurm job {self.jobs[0].job_id} {states[0].word.lower()}"
        else:
            what = ", ".join(f"{count} {word}" for word, count in counts.items()) or "over"
            head = f"{len(self.jobs)} Slurm jobs: {what}"
        reasons = {state.reason for state in states if state.word == "PENDING" and state.reason != "None"}
        starts = sorted(state.start for state in states if state.word == "PENDING" and state.start)
        head += f" ({', '.join(sorted(reasons))})" if reasons else ""
        head += f", expected to start at {starts[0]}" if starts else ""
        if self._silence_s() > 30:
            head += f", Slurm has not answered for {self._silence_s():.0f} s"
        return f"{head}, waited {passed}"

    def _silence_s(self) -> float:
        return max(0.0, time.monotonic() - self._answered - self._ask_pause)

    def _ask(self) -> None:
        """Ask Slurm about all jobs that are not over, when it is time to."""
        now = time.monotonic()
        if now < self._next_ask:
            return
        numbers = [job.job_id for job in self.jobs if job.job_id and job.job_id not in self._over]
        try:
            found = job_states(numbers)
            self._answered = time.monotonic()
            for number in numbers:
                state = found.get(number)
                if state is None or state.is_over:
                    self._over[number] = now
                if state is not None:
                    self._states[number] = state
        except SilentError as error:
            if self._silence_s() > SILENT_S:
                raise WaitError(
                    f"Slurm has not answered for {self._silence_s():.0f} s ({error}); the jobs may go on: "
                    "run the same again later to collect them"
                ) from error
        self._next_ask = now + self._ask_pause
        self._ask_pause = min(ASK_S[1], self._ask_pause * 1.3)

    def _check(self, job: JobFolder, number: int) -> None:
        """Give up on a point whose job is over, or when the wait is."""
        now, job_id = time.monotonic(), job.job_id or ""
        if job.refused() and not job.read("started.json"):
            raise lost_error(job, self._states.get(job_id))
        if job_id in self._over:
            state = self._states.get(job_id)
            late_s = LATE_S.get(state.word, LATE_OTHERWISE_S) if state else LATE_OTHERWISE_S
            if job.printed() == "" and not job.read("started.json"):
                late_s = LATE_OTHERWISE_S
            if now - self._over[job_id] >= late_s and not job.status(number):
                raise lost_error(job, job_details(job_id) or state)
        if self._wait_s is not None and now - self._begin > self._wait_s:
            raise WaitError(
                f"the wait of {self._wait_s:g} s for Slurm is over: {self.text()}; the jobs go on: run the "
                "same again to collect them, or cancel them: labkit slurm cancel "
                f"{' '.join(one.job_id or '' for one in self.jobs)}"
            )
