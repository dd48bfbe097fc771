"""Failures of a submission's run, and the budget of all of its ranks together."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from labkit.errors import LabkitError
from labkit.grading.sandbox.outcome import Limits
from labkit.grading.sandbox.wire import TooLate

__all__ = ["Budget", "PatientDeadline", "SleepWatch", "SubmissionFailure"]

#: a run on a busy machine ends after this multiple of its wall-clock time, whatever it had to wait for
_MOST_STRETCH = 20
#: a run may sleep for this multiple of the seconds that one call of a rank may block
_MOST_NAPS = 4
#: how often it is looked at, in seconds: each look reads a file for every rank
_LOOK_S = 1.0
#: who hands over so much between two looks is at work, however little time that takes it
_BULK_BYTES = 1 << 16


class SubmissionFailure(LabkitError):
    """A rank of a submission failed.

    `kind`: As in `Outcome.kind`.
    `is_loading`: Before the function was called.
    """

    code = "submission-failed"

    def __init__(self, kind: str, rank: int, message: str, is_loading: bool = False) -> None:
        super().__init__(message)
        self.kind, self.rank, self.is_loading = kind, rank, is_loading


class Budget:
    """What all ranks of a run may use together.

    `pids`: The ranks' processes.
    `deadline_s`: Of the monotonic clock, at the latest: however busy the machine is.
    `why_over`: Once the run has had its time: what it has done with it.
    """

    def __init__(self, limits: Limits, pids: Sequence[int]) -> None:
        self.limits, self._pids = limits, [os.getpid(), *pids]
        self._began_s, self._before_s = time.monotonic(), _busy_s(os.getpid()) or (0.0, 0.0)
        self._look_s = self._began_s + _LOOK_S
        self.deadline_s = self._began_s + _MOST_STRETCH * limits.wall_s
        self.why_over = ""
        self.requests = self.traffic_bytes = self.room_bytes = 0

    def is_over(self) -> bool:
        """Whether the run has had its time; what its processes have waited for a processor does not count.

        Nobody need sleep in a run: while one rank waits, another one computes, or the grader does. So many
        naps, each too short to be found out by itself, end it as well: they would hold up the class.
        """
        now_s = time.monotonic()
        if self.why_over or now_s < self._look_s:
            return bool(self.why_over)
        self._look_s = now_s + _LOOK_S
        took_s, naps_s = now_s - self._began_s, float(_MOST_NAPS * self.limits.idle_s)
        if took_s < min(self.limits.wall_s, naps_s):  # neither limit can be reached: no process is looked at
            return False
        looks = [_busy_s(pid) for pid in self._pids]
        worked_s = sum(one[0] for one in looks if one) - self._before_s[0]
        queued_s = sum(one[1] for one in looks if one) - self._before_s[1]
        if now_s >= self.deadline_s or took_s - queued_s >= self.limits.wall_s:
            self.why_over = self.late_words
        elif None not in looks and took_s - queued_s - worked_s >= naps_s:
            self.why_over = f"the ranks slept for {naps_s:g} s in all"
        return bool(self.why_over)

    @property
    def late_words(self) -> str:
        """What a run has done that has had its time."""
        return self.why_over or f"the run did not end within {self.limits.wall_s:g} s"

    def goes_on(self, watch: SleepWatch, come_bytes: int) -> bool:
        """Whether a process that is waited for works, or wants to; so much has come since the last look.

        Raises TooLate: The run has had its time.
        """
        if self.is_over():
            raise TooLate("no answer within the time limit")
        return watch.is_busy(come_bytes)

    def spend(self, rank: int, n_bytes: int) -> None:
        """Count a request.

        Raises SubmissionFailure: There have been too many.
        """
        if self.is_over():
            raise SubmissionFailure("time", rank, self.late_words)
        self.requests += 1
        if self.requests > self.limits.requests:
            raise SubmissionFailure(
                "budget", rank, f"the ranks made more than {self.limits.requests} calls: a loop that polls?"
            )
        self.carry(rank, n_bytes)

    def carry(self, rank: int, n_bytes: int) -> None:
        """Count bytes that lie in the grader for a rank.

        Raises SubmissionFailure: There have been too many.
        """
        self.traffic_bytes += n_bytes
        if self.traffic_bytes > self.limits.traffic_bytes:
            raise SubmissionFailure(
                "budget", rank, f"the ranks sent more than {self.limits.traffic_bytes >> 20} MiB in all"
            )

    def set_aside(self, rank: int, n_bytes: int) -> None:
        """Count the room of a receive that is open: so much may come for it, and lie in the grader.

        Raises SubmissionFailure: All of them together are too large.
        """
        self.room_bytes += n_bytes
        if self.room_bytes > self.limits.memory_bytes:
            most = self.limits.memory_bytes >> 20
            raise SubmissionFailure("budget", rank, f"open receives have buffers of more than {most} MiB")


def _busy_s(pid: int) -> tuple[float, float] | None:
    """Return how long a process has worked, and waited for a processor; None where nobody says it."""
    try:
        worked, queued = Path(f"/proc/{pid}/schedstat").read_text().split()[:2]
        return (int(worked) / 1e9, int(queued) / 1e9) if int(worked) else None
    except (OSError, ValueError):
        return None


class PatientDeadline:
    """Time limit of a process to which the time that it waits for a processor does not count.

    `limit_s`: It is over after `_MOST_STRETCH` times as long in any case.
    `next_look_s`: How long to wait before it may be over.
    """

    next_look_s = _LOOK_S

    def __init__(self, pid: int, limit_s: float) -> None:
        self._pid, self._limit_s, self._began_s = pid, limit_s, time.monotonic()
        self._queued_s = self._queued()

    def is_over(self) -> bool:
        """Whether the process has had its time."""
        took_s = time.monotonic() - self._began_s
        if took_s < self._limit_s:
            return False
        return took_s >= _MOST_STRETCH * self._limit_s or (
            took_s - (self._queued() - self._queued_s) >= self._limit_s
        )

    def _queued(self) -> float:
        found = _busy_s(self._pid)
        return found[1] if found else 0.0


class SleepWatch:
    """Distinguishes a process that computes, or waits for a core, from one that sleeps.

    `idle_looks`: How many looks, about a second apart, must find it asleep.
    """

    def __init__(self, pid: int, idle_looks: int) -> None:
        self.pid, self.idle_looks = pid, idle_looks
        self._worked, self._idle_looks = "", 0

    def is_busy(self, come_bytes: int = 0) -> bool:
        """Whether the process has worked, or wanted to, since one of the last looks.

        A large message goes through a small buffer: on a busy machine the rank sleeps until the grader has
        had its turn, and its copying is too short to be seen in the time that it has worked.
        """
        place = Path("/proc", str(self.pid))
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # gone, which its socket shows; or no /proc, and the time limit decides
            return True
        try:
            # In nanoseconds, and how often it ran: a busy machine gives it less than a tick in a second.
            worked = (place / "schedstat").read_text()
        except OSError:
            worked = " ".join(fields[11:13])
        is_idle = fields[0] == "S" and worked == self._worked and come_bytes < _BULK_BYTES
        self._worked, self._idle_looks = worked, self._idle_looks + 1 if is_idle else 0
        return self._idle_looks < self.idle_looks
