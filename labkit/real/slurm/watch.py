"""Wait for jobs: look at their folders often, ask Slurm rarely, and say what they wait for."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from labkit.errors import TimeLimitError
from labkit.real.slurm.collect import lost_error
from labkit.real.slurm.commands import SilentError, State, job_details, job_states
from labkit.real.slurm.store import JobFolder

__all__ = ["Line", "WaitError", "Watch"]

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

    Parameters
    ----------
    jobs : iterable of JobFolder
        The jobs.
    tell : callable
        Gets a line on how they are doing.
    wait_s : float or None
        Limit of the wait for all of them, in seconds.
    """

    def __init__(self, jobs: Iterable[JobFolder], tell: Callable[[str], None], wait_s: float | None) -> None:
        self.jobs = list(jobs)
        self.tell = tell
        self._begin = time.monotonic()
        self._wait_s = wait_s
        self._states: dict[str, State] = {}
        self._over: dict[str, float] = {}
        self._next_ask = 0.0
        self._ask_pause, self._answered = ASK_S[0], self._begin

    def status(self, job: JobFolder, number: int) -> dict[str, Any]:
        """Wait until a point has ended, and return how.

        Raises
        ------
        LabkitError
            Its job is over without it, the wait is, or Slurm has not answered for long.
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
        """Say in one line how the jobs are doing."""
        states = [self._states.get(job.job_id or "", State("UNKNOWN")) for job in self.jobs]
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
