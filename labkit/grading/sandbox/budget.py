"""Failures of a submission's run, and the budget of all of its ranks together."""

from __future__ import annotations

from pathlib import Path

from labkit.errors import LabkitError
from labkit.grading.sandbox.outcome import Limits

__all__ = ["Budget", "SubmissionFailure", "Watch"]


class SubmissionFailure(LabkitError):
    """A rank of a submission failed.

    Attributes
    ----------
    kind : str
        As in `Outcome.kind`.
    rank : int
    """

    def __init__(self, kind: str, rank: int, message: str) -> None:
        super().__init__(message)
        self.kind, self.rank = kind, rank


class Budget:
    """What all ranks of a run may use together.

    Parameters
    ----------
    limits : Limits
    deadline_s : float
        Of the monotonic clock.
    """

    def __init__(self, limits: Limits, deadline_s: float) -> None:
        self.limits, self.deadline_s = limits, deadline_s
        self.requests = self.traffic_bytes = 0

    def spend(self, rank: int, n_bytes: int) -> None:
        """Count a request.

        Raises
        ------
        SubmissionFailure
            There have been too many.
        """
        self.requests += 1
        self.traffic_bytes += n_bytes
        if self.requests > self.limits.requests:
            raise SubmissionFailure(
                "budget", rank, f"the ranks made more than {self.limits.requests} calls: a loop that polls?"
            )
        if self.traffic_bytes > self.limits.traffic_bytes:
            raise SubmissionFailure(
                "budget", rank, f"the ranks sent more than {self.limits.traffic_bytes >> 20} MiB in all"
            )


class Watch:
    """Tells a process that computes, or waits for a core of a busy machine, from one that sleeps.

    Parameters
    ----------
    pid : int
    idle_looks : int
        How many looks, about a second apart, must find it asleep.
    """

    def __init__(self, pid: int, idle_looks: int) -> None:
        self.pid, self.idle_looks = pid, idle_looks
        self._worked, self._idle_looks = "", 0

    def is_busy(self) -> bool:
        """Whether the process has worked, or wanted to, since one of the last looks."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # gone, which its socket tells; or no /proc, and the time limit decides
            return True
        worked = " ".join(fields[11:13])
        is_idle = fields[0] == "S" and worked == self._worked
        self._worked, self._idle_looks = worked, self._idle_looks + 1 if is_idle else 0
        return self._idle_looks < self.idle_looks
