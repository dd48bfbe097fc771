"""From the files of a failed job to one error that says which rank, where and why."""

from __future__ import annotations

import json
import linecache
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.errors import LabkitError, MachineError, RankError, TimeLimitError
from labkit.run.mpi_job import Job, Outcome

__all__ = ["Frame", "failure", "read_output", "read_stack"]

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')
_SIGNALLED = re.compile(r"process rank (\d+) with PID (\d+) on node \S+\s+exited\s+on\s+signal (\d+)")
_EXITED = re.compile(r"Process name: \[[^\]]*,(\d+)\]\s+Exit code:\s+(\d+)")
_IMPROPER = re.compile(r"process rank (\d+) with PID (\d+) on node \S+\s+exiting\s+improperly")
_HYDRA = re.compile(r"PID (\d+) RUNNING AT[^\n]*\n[=\s]*EXIT CODE: (\d+)")
_HYDRA_SIGNAL = re.compile(r"EXIT STRING: [^\n]*\(signal (\d+)\)")

#: ranks whose stacks or output an error message shows
SHOWN_RANKS = 16
#: frames that are shown of each stack
SHOWN_FRAMES = 6


@dataclass(frozen=True)
class Frame:
    """One line of a rank's stack."""

    file: str
    line: int
    name: str

    def text(self) -> str:
        """Show the frame as Python does, with its source line where that is known."""
        source = linecache.getline(self.file, self.line).strip()
        where = f'  File "{self.file}", line {self.line}, in {self.name}'
        return f"{where}\n    {source}" if source else where


def failure(job: Job, outcome: Outcome, timeout_s: float | None) -> LabkitError | None:
    """Find out why a job failed.

    Parameters
    ----------
    job : Job
        The job, ended, its directory still there.
    outcome : Outcome
        How it ended.
    timeout_s : float or None
        Its time limit.

    Returns
    -------
    LabkitError or None
        The error to raise; None when every rank finished.
    """
    records = _error_records(job)
    done = [job.rank_file(rank, "done").exists() for rank in range(job.ranks)]
    if records:
        error = _from_record(records[0], job)
    elif all(done):
        return None
    elif outcome.reason == "time":
        error = TimeLimitError(_where_everybody_was(job, done, timeout_s))
    elif outcome.reason == "output":
        error = MachineError(
            f"the ranks printed more than {job.output_limit_bytes} bytes and were ended; print less, or "
            "raise output_limit_bytes"
        )
    else:
        error = _from_launcher(job, outcome, done)
    _add_output(error, read_output(job))
    return error


def read_output(job: Job) -> list[str]:
    """Read what each rank printed, in rank order."""
    texts = []
    for rank in range(job.ranks):
        try:
            texts.append(job.rank_file(rank, "out").read_text("utf-8", "replace"))
        except OSError:
            texts.append("")
    return texts


def read_stack(path: Path) -> list[Frame]:
    """Read the last stack that a rank wrote: the program's frames, outermost first.

    Parameters
    ----------
    path : Path
        The rank's stack file, as `faulthandler` writes it: threads apart, innermost frame first.

    Returns
    -------
    list of Frame
        The frames of the thread that runs the program, below labkit's own; empty when there is none.
    """
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return []
    best: list[Frame] = []
    for block in re.split(r"^(?=Thread |Current thread |Fatal )", text, flags=re.MULTILINE):
        frames = [
            Frame(found["file"], int(found["line"]), found["name"])
            for found in map(_FRAME.match, block.splitlines())
            if found
        ]
        border = next((i for i, frame in enumerate(frames) if frame.file.endswith("mpi_child.py")), None)
        if border is not None and frames[border].name != "_die_with_parent":
            mine = [frame for frame in frames[:border] if frame.file != "<frozen runpy>"]
            best = list(reversed(mine))
    return best


def _error_records(job: Job) -> list[dict[str, Any]]:
    records = []
    for rank in range(-1, job.ranks):  # -1: a rank that could not find out which it is
        try:
            records.append(json.loads(job.rank_file(rank, "error").read_text("utf-8")))
        except (OSError, ValueError):
            continue
    return sorted(records, key=lambda record: (record["kind"] != "machine", record["time"]))


def _from_record(record: dict[str, Any], job: Job) -> LabkitError:
    if record["kind"] == "machine":
        return MachineError(f"{record['text']} (launched by {job.launcher.path}); see labkit doctor")
    rank, text = int(record["rank"]), str(record["text"])
    if record["kind"] == "result":
        return RankError(rank, text, text)
    error = RankError(rank, text)
    if record["kind"] == "exit":
        error.add_note(f"exit status {record['status']}")
    return error


def _where_everybody_was(job: Job, done: list[bool], timeout_s: float | None) -> str:
    """Describe each rank at the time limit; ranks at the same place share an entry."""
    places: dict[tuple[Frame, ...] | str, list[int]] = {}
    for rank in range(job.ranks):
        key: tuple[Frame, ...] | str
        if done[rank]:
            key = "had finished"
        elif not job.rank_file(rank, "pid").exists():
            key = "had not started"
        else:
            key = (
                tuple(read_stack(job.rank_file(rank, "stack")))
                or "was outside the program (starting or leaving MPI)"
            )
        places.setdefault(key, []).append(rank)
    lines = [f"the run did not end within {timeout_s:g} s and was ended; where each rank was:"]
    if list(places) == ["had not started"]:
        return (
            f"no rank had started within {timeout_s:g} s ({job.launcher.path} was ended); see labkit doctor"
        )
    for place, ranks in list(places.items())[:SHOWN_RANKS]:
        who = _ranks_text(ranks)
        if isinstance(place, str):
            lines.append(f"{who}: {place}")
            continue
        shown = place[-SHOWN_FRAMES:]
        lines.append(f"{who}:" + (" ..." if len(shown) < len(place) else ""))
        lines += [frame.text() for frame in shown]
    if len(places) > SHOWN_RANKS:
        lines.append(f"... and {len(places) - SHOWN_RANKS} more places")
    return "\n".join(lines)


def _ranks_text(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    parts, start = [], ranks[0]
    for here, after in zip(ranks, [*ranks[1:], None], strict=True):
        if after != here + 1:
            parts.append(str(start) if start == here else f"{start}-{here}")
            start = after if after is not None else here
    return "ranks " + ", ".join(parts)


def _from_launcher(job: Job, outcome: Outcome, done: list[bool]) -> LabkitError:
    """Name the rank that vanished without a word, from what the launcher saw."""
    text = job.launcher_text()
    pids = {job.rank_file(rank, "pid"): rank for rank in range(job.ranks)}
    by_pid = {path.read_text().strip(): rank for path, rank in pids.items() if path.exists()}
    if found := _SIGNALLED.search(text):
        return _vanished(job, int(found[1]), signal_number=int(found[3]))
    if found := _EXITED.search(text):
        return _vanished(job, int(found[1]), status=int(found[2]))
    if found := _IMPROPER.search(text):
        return _vanished(job, int(found[1]), status=0)
    if (found := _HYDRA.search(text)) and found[1] in by_pid:
        ended = _HYDRA_SIGNAL.search(text)
        if ended:
            return _vanished(job, by_pid[found[1]], signal_number=int(ended[1]))
        return _vanished(job, by_pid[found[1]], status=int(found[2]))
    missing = [rank for rank, finished in enumerate(done) if not finished]
    if not by_pid:
        return MachineError(
            f"{job.launcher.path} failed before any rank started (exit code {outcome.returncode}): "
            f"{_telling_line(text)}; see labkit doctor"
        )
    if len(missing) == 1:
        return _vanished(job, missing[0], status=outcome.returncode)
    return MachineError(
        f"{_ranks_text(missing)} ended without a result (mpiexec's exit code: {outcome.returncode}): "
        f"{_telling_line(text)}"
    )


def _vanished(job: Job, rank: int, status: int | None = None, signal_number: int | None = None) -> RankError:
    if signal_number is not None:
        try:
            name = signal.Signals(signal_number).name
        except ValueError:
            name = "unknown"
        how = f"was ended by signal {signal_number} ({name})"
        if name == "SIGKILL":
            how += "; where nobody sent it, the machine ran out of memory"
    else:
        how = f"left with exit status {status} before it had finished (os._exit, or an abort)"
    stack = read_stack(job.rank_file(rank, "stack"))
    where = "\n".join(frame.text() for frame in stack)
    message = f"rank {rank} {how}" + (f"; it was at\n{where}" if where else "")
    return RankError(rank, f"{where}\n{how}" if where else how, message)


def _telling_line(text: str) -> str:
    """Pick the line of a launcher's output that says most: its banners and rules say nothing."""
    for line in text.splitlines():
        stripped = line.strip(" -=*\t")
        if len(stripped) > 8:
            return stripped[:300]
    return "it printed nothing"


def _add_output(error: LabkitError, output: list[str]) -> None:
    """Attach what the ranks had printed: `error.output` has all of it, the note its end."""
    error.output = output  # type: ignore[attr-defined]
    for rank, text in [(r, t) for r, t in enumerate(output) if t.strip()][:SHOWN_RANKS]:
        lines = text.rstrip().splitlines()
        more = f" (the last 5 of {len(lines)} lines)" if len(lines) > 5 else ""
        error.add_note(f"rank {rank} had printed{more}:\n" + "\n".join("  " + line for line in lines[-5:]))
