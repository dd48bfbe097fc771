"""Errors of failed runs that are the same on every real machine."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from labkit.errors import MORE_TIME, LabkitError, MachineError, RankError, RunInterrupted, TimeLimitError
from labkit.process.child import ending_text
from labkit.process.stacks import Frame, places_text

__all__ = [
    "Ending",
    "Where",
    "first_error",
    "grouped",
    "interrupted",
    "printed_too_much",
    "read_ending",
    "stopped",
    "telling_line",
    "too_late",
    "with_output",
]


#: where a rank was: its frames, outermost first, or what there is to say instead
Where = tuple[Frame, ...] | str


def first_error(records: Iterable[Mapping[str, Any]], machine: str = "") -> LabkitError | None:
    """Return the error that counts of those that ranks have noted, None without any."""
    record = min(records, key=lambda one: (one["kind"] != "machine", one["time"]), default=None)
    if record is None:
        return None
    rank, text = int(record["rank"]), str(record["text"])
    if record["kind"] == "machine":
        return MachineError(f"{text}{machine}")
    said = {"abort": f"rank {rank} {text}", "result": text}
    return RankError(rank, text, said.get(record["kind"]), record.get("abort_code"), record.get("code"))


def too_late(timeout_s: float | None, places: Iterable[tuple[int, Where]]) -> TimeLimitError:
    """Return the error of a run that has reached its time limit."""
    head = f"the run did not end within {timeout_s:g} s and was ended; {MORE_TIME}. Where each rank was:"
    return TimeLimitError(f"{head}\n{grouped(places)}")


def grouped(places: Iterable[tuple[int, Where]]) -> str:
    """Describe where ranks were; those at the same place share an entry."""
    found: dict[Where, list[int]] = {}
    for rank, place in places:
        found.setdefault(place, []).append(rank)
    return places_text(found)


def stopped(frames: tuple[Frame, ...]) -> str:
    """Describe a rank that a signal has stopped."""
    text = "was stopped by a signal (SIGSTOP or SIGTSTP), and not continued"
    return "\n".join([f"{text}; it was at", *(frame.text() for frame in frames)]) if frames else text


def printed_too_much(who: str, limit_bytes: int) -> MachineError:
    """Return the error of ranks that were ended because of what they printed."""
    return MachineError(
        f"{who} printed more than {limit_bytes} bytes and {'were' if who == 'the ranks' else 'was'} ended; "
        "print less, or raise output_limit_bytes",
        code="too-large",
    )


def with_output(error: LabkitError, printed: Iterable[bytes]) -> LabkitError:
    """Return the error with what each rank had printed."""
    error.attach_output(_texts(printed))
    return error


def interrupted(printed: Iterable[bytes]) -> RunInterrupted:
    """Return what an interrupted run raises, with what each rank had printed."""
    return RunInterrupted(_texts(printed))


def _texts(printed: Iterable[bytes]) -> list[str]:
    return [text.decode("utf-8", "replace") for text in printed]


# Launchers' messages about a rank that vanished silently: each MPI has its own phrases.


# Open MPI 4 writes [[36896,1],1] and 5 writes [prterun-host-36896@1,1]: the rank is behind the last comma.
_SIGNALED = re.compile(r"process rank (\d+) with PID \d+ on node \S+\s+exited\s+on\s+signal (\d+)")
_EXITED = re.compile(r"Process name: \[.*,(\d+)\]\s+Exit code:\s+(\d+)")
_IMPROPER = re.compile(r"process rank (\d+) with PID [1-9]\d* on node \S+\s+exiting\s+improperly")
_ABORTED = (
    re.compile(r"MPI_ABORT was invoked on rank .*\n\s*Proc: \[.*,(\d+)\]\s+Errorcode: (-?\d+)"),
    re.compile(r"MPI_ABORT was invoked on rank (\d+) in communicator .*\n\s*with errorcode (-?\d+)"),
    re.compile(r"Abort\((-?\d+)\) on node (\d+) "),
)
_HYDRA_CODES = re.compile(r"Exit codes: (.*)")
_HYDRA_BAD = re.compile(r"PID (\d+) RUNNING AT[^\n]*\n[=\s]*EXIT CODE: (\d+)")
# The first line of srun is about the first rank to go: --kill-on-bad-exit then ends the others.
_SRUN = re.compile(r"srun: error: \S+: tasks? (\d+)[\d,-]*: (?:Exited with exit code (\d+)|([A-Z][a-z ]+))")
_SIGNAL_WORDS = {signal.strsignal(one): int(one) for one in signal.valid_signals()}


@dataclass(frozen=True)
class Ending:
    """How a rank ended: by a signal, by leaving with a status, or by aborting with a code."""

    rank: int
    signal: int | None = None
    status: int | None = None
    abort: int | None = None

    def text(self) -> str:
        """Return it without the rank."""
        if self.abort is not None:
            return f"aborted all ranks with error code {self.abort}"
        if self.signal is None:
            return f"left with exit status {self.status} before it had finished (os._exit?)"
        return ending_text(-self.signal)


def read_ending(text: str, ranks_by_pid: Mapping[int, int]) -> Ending | None:
    """Find out which rank ended first, and how."""
    for pattern, is_turned in zip(_ABORTED, (False, False, True), strict=True):
        if found := pattern.search(text):
            rank, code = (int(found[2]), int(found[1])) if is_turned else (int(found[1]), int(found[2]))
            return Ending(rank, abort=code)
    if found := _SIGNALED.search(text):
        return Ending(int(found[1]), signal=int(found[2]))
    if found := _EXITED.search(text):
        return Ending(int(found[1]), status=int(found[2]))
    if found := _IMPROPER.search(text):
        return Ending(int(found[1]), status=0)
    if (found := _SRUN.search(text)) and (found[2] or found[3].strip() in _SIGNAL_WORDS):
        number = None if found[2] else _SIGNAL_WORDS[found[3].strip()]
        return Ending(int(found[1]), signal=number, status=int(found[2]) if found[2] else None)
    return _from_hydra(text, ranks_by_pid)


def _from_hydra(text: str, ranks_by_pid: Mapping[int, int]) -> Ending | None:
    """Read the exit codes of MPICH's launcher: raw wait statuses in rank order.

    It kills the other ranks, so a status that is not SIGKILL marks the first one.
    """
    if found := _HYDRA_CODES.search(text):
        words = re.sub(r"\[[^\]]*\]", ",", found[1]).replace(" ", ",").split(",")
        endings = [(rank, int(word)) for rank, word in enumerate(w for w in words if w.isdigit())]
        others = [(rank, status) for rank, status in endings if status not in (0, signal.SIGKILL)]
        if others:
            return _from_status(*others[0])
        killed = [(rank, status) for rank, status in endings if status]
        if len(killed) == 1:
            return _from_status(*killed[0])
    if (found := _HYDRA_BAD.search(text)) and int(found[1]) in ranks_by_pid:
        return _from_status(ranks_by_pid[int(found[1])], int(found[2]))
    return None


def _from_status(rank: int, status: int) -> Ending:
    if status & 0x7F:
        return Ending(rank, signal=status & 0x7F)
    return Ending(rank, status=status >> 8)


def telling_line(text: str) -> str:
    """Pick the first line of a launcher's output that says something: not its rules and banners."""
    for line in text.splitlines():
        stripped = line.strip(" -=*\t")
        if len(stripped) > 8:
            return stripped[:300]
    return "it printed nothing"
