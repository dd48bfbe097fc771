"""One's jobs on a cluster: a table of them, their results, and their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from labkit.errors import LabkitError, MachineError
from labkit.real.slurm.collect import collect_point, lost_error
from labkit.real.slurm.commands import JobState, SilentError, cancel, job_details, job_states
from labkit.real.slurm.options import slurm_of
from labkit.real.slurm.store import JobFolder, find_jobs
from labkit.result import Run

__all__ = ["SlurmJob", "SlurmJobs", "slurm_jobs"]


class SlurmJob:
    """A batch job that labkit has submitted.

    `id`: Slurm's number.
    `state`: What Slurm says (lower case), or ``forgotten``.
    `ranks`: Of its points.
    `done`, `points`: How many of its points have ended, of how many.
    """

    def __init__(self, folder: JobFolder, state: JobState | None) -> None:
        self._folder, self._state = folder, state
        self.id = folder.job_id or ""
        self.program = str(folder.about["program"])
        self.ranks = sorted({int(point["ranks"]) for point in folder.points})
        self.points = len(folder.points)
        self.done = sum(bool(folder.status(number)) for number in range(self.points))
        self.folder = folder.path

    @property
    def state(self) -> str:
        """What Slurm says about it."""
        if self._state is not None:
            return self._state.word.lower()
        return "completed" if self.done == self.points else "forgotten" if self.id else "not submitted"

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._state is None or self._state.is_over

    @property
    def is_collected(self) -> bool:
        """Whether all its results have been handed out."""
        return all(self._folder.is_collected(number) for number in range(self.points))

    def collect(self) -> list[Run | LabkitError | None]:
        """Return the result of each point: a run, its error, or None while it has not ended."""
        found: list[Run | LabkitError | None] = []
        for number in range(self.points):
            status = self._folder.status(number)
            try:
                if status:
                    found.append(collect_point(self._folder, number, status))
                elif self.is_over:
                    found.append(lost_error(self._folder, job_details(self.id) if self.id else None))
                else:
                    found.append(None)
            except LabkitError as error:
                found.append(error)
        return found

    def cancel(self) -> None:
        """Cancel the job; what it has measured stays, and the same call submits it again.

        Raises MachineError: Slurm does not do it.
        """
        if self.id and not self.is_over:
            cancel([self.id])
        for number in range(self.points):
            self._folder.mark_collected(number)

    def remove(self) -> None:
        """Remove the job's folder.

        Raises MachineError: The job has not ended.
        """
        if not self.is_over:
            raise MachineError(f"Slurm job {self.id} is {self.state}; cancel it first", code="wrong-order")
        self._folder.remove()

    def row(self) -> tuple[str, ...]:
        """Return what a table shows."""
        reason = self._state.reason if self._state and self._state.word == "PENDING" else ""
        ranks = ", ".join(map(str, self.ranks[:6])) + (", ..." if len(self.ranks) > 6 else "")
        return (
            self.id,
            self.state + (f" ({reason})" if reason not in ("", "None") else ""),
            self.program,
            ranks,
            f"{self.done}/{self.points}",
            str(self._folder.about["created"])[:16].replace("T", " "),
            str(self._folder.about.get("name", "")),
        )

    def __repr__(self) -> str:
        return f"<Slurm job {self.id} of {self.program}, {self.state}, {self.done} of {self.points} points>"


class SlurmJobs(Sequence[SlurmJob]):
    """Jobs, newest first; shown as a table."""

    HEAD = ("job", "state", "program", "ranks", "points", "submitted", "name")

    def __init__(self, jobs: list[SlurmJob]) -> None:
        self._jobs = jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[SlurmJob]:
        return iter(self._jobs)

    def __getitem__(self, index: Any) -> Any:
        """Return the job at an index, or with a number as a text: ``jobs["4711"]``."""
        if isinstance(index, str):
            for job in self._jobs:
                if job.id == index:
                    return job
            raise MachineError(
                f"no job {index} here; there are: {', '.join(j.id for j in self) or 'none'}",
                code="unknown-name",
            )
        return SlurmJobs(self._jobs[index]) if isinstance(index, slice) else self._jobs[index]

    def __repr__(self) -> str:
        if not self._jobs:
            return "no jobs"
        rows = [self.HEAD, *(job.row() for job in self._jobs)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.HEAD))]
        lines = ["  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        if not self._jobs:
            return "<p>no jobs</p>"
        head = "".join(f"<th>{escape(word)}</th>" for word in self.HEAD)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in job.row()) + "</tr>" for job in self._jobs
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def slurm_jobs(on: object = "slurm") -> SlurmJobs:
    """List the jobs that labkit has submitted, newest first.

    Parameters
    ----------
    on : Slurm or str
        The cluster whose `folder` is looked into.

    Returns
    -------
    SlurmJobs
        A sequence of `SlurmJob`, each with ``collect()``, ``cancel()`` and ``remove()``; shown as a table.

    Raises
    ------
    MachineError
        The options are wrong.
    """
    folders = list(find_jobs(slurm_of(on).folder_path))
    numbers = [
        folder.job_id or ""
        for folder in folders
        if folder.job_id and not all(folder.status(number) for number in range(len(folder.points)))
    ]
    try:
        states = job_states(numbers)
    except (SilentError, MachineError):  # what is in the folders can be seen all the same
        states = {}
    return SlurmJobs([SlurmJob(folder, states.get(folder.job_id or "")) for folder in folders])
