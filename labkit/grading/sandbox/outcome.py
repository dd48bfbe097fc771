"""The outcome of one run of a submission: results and counts, or the cause of a failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.errors import MachineError

__all__ = ["Limits", "Outcome", "Work", "explain_end"]

_SIGNALS = {11: "it crashed", 6: "it aborted", 31: "it made a forbidden system call"}


@dataclass(frozen=True)
class Work:
    """Tasks that the grader does for ranks: the content of each is known only once it is done.

    A rank calls the last of its arguments with a task's number; so much simulated time passes for it, and it
    gets the result. So it is known which rank has done what, and none of it can be had for nothing.

    `results`: Of each task: plain values (`labkit.grading.sandbox.wire.encode`).
    `seconds`: What each task takes.
    `asked_for`: The tasks that a right result takes, by default all: one that was found without a task was
        guessed, and no others may be done.
    """

    results: Sequence[Any]
    seconds: Sequence[float]
    asked_for: frozenset[int] | None = None

    def wanted(self) -> frozenset[int]:
        """Return the tasks that a right result takes."""
        return frozenset(range(len(self.results))) if self.asked_for is None else self.asked_for

    def number_of(self, task: object) -> int:
        """Return a task's number.

        Raises IndexError: There is no such task.
        """
        if isinstance(task, bool) or not isinstance(task, int) or not 0 <= task < len(self.results):
            raise IndexError(
                f"there is no task {str(task)[:40]}: they are numbered from 0 to {len(self.results) - 1}"
            )
        return task

    def n_bytes(self, task: int) -> int:
        """Return the size of a task's result."""
        return int(getattr(self.results[task], "nbytes", 8))


@dataclass(frozen=True)
class Limits:
    """What one run of a submission may use.

    `cpu_s`: CPU time of one rank, in seconds.
    `wall_s`: Wall-clock time of the run, but for the time that its processes had to wait for a processor;
        what sleeps is found out earlier.
    `memory_bytes`: Memory of all ranks together, beyond what Python and NumPy take; a rank gets its share, at
        least 24 MiB.
    `idle_s`: Seconds without work and without a call that end a run (approximate).
    `requests`: Calls of all ranks together.
    `vain_polls`: Probes and tests of one rank, one after another, that find nothing.
    `traffic_bytes`: Bytes of all messages together.
    """

    cpu_s: float = 3.0
    wall_s: float = 90.0
    memory_bytes: int = 1 << 30
    idle_s: int = 4
    requests: int = 60_000
    vain_polls: int = 3_000
    traffic_bytes: int = 1 << 28

    def of_rank(self, ranks: int) -> dict[str, object]:
        """Return the limits of each rank."""
        share = max(24 << 20, min(self.memory_bytes // ranks, 256 << 20))
        return {"cpu_s": self.cpu_s, "memory_bytes": share}


@dataclass
class Outcome:
    """One run of a submission.

    `kind`: "finished", or how it failed: "error" (an exception), "deadlock", "mismatch" (ranks disagree in a
        collective), "time", "memory", "ended" (a process left), "forbidden" (a call the task excludes),
        "budget" (too many calls or bytes), "protocol" (answers that are none), "source" (not begun: reading
        or compiling the source exceeded a limit), "spent" (not begun: earlier runs took all of the time there
        is), "machine" (a process that ended before its submission began).
    `message`: The failure as text.
    `rank`: Where it failed.
    `results`: What each rank returned.
    `makespan_s`: Simulated seconds; NaN on a machine that does not simulate.
    `messages`, `bytes`: As the engine counted them.
    `trace`: The recorded trace, if it was asked for.
    `output`: What each rank printed.
    `tasks`: Which tasks of the case's `Work` each rank has had done, in order.
    `attempts`: What the processes said that they asked for and ranks are not given: evidence, no proof.
    `told`: For each rank the bytes that calls have brought it, each answer packed, where they were counted.
    `cut`: The messages that did not fit into the room of their receive: source, destination, tag, bytes.
    `is_loading`: It failed before the function was called: in what the submission does when it is loaded.
    """

    kind: str
    ranks: int
    message: str = ""
    rank: int | None = None
    results: list[Any] = field(default_factory=list)
    makespan_s: float = float("nan")
    messages: int | None = None
    bytes: int | None = None
    trace: Any = None
    output: list[str] = field(default_factory=list)
    tasks: list[list[int]] = field(default_factory=list)
    attempts: list[str] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    cut: list[tuple[int, int, int, int]] = field(default_factory=list)
    is_loading: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether every rank returned."""
        return self.kind == "finished"

    def printed(self, most: int = 1500) -> str:
        """Return what the ranks printed, cut."""
        texts = [f"[rank {rank}] {text.rstrip()}" for rank, text in enumerate(self.output) if text.strip()]
        whole = "\n".join(texts)
        return whole if len(whole) <= most else whole[:most] + "\n..."


def explain_end(outcome: Outcome, ends: dict[int, int], limits: Limits) -> None:
    """Describe how a process ended that handed nothing back."""
    if outcome.kind not in ("ended", "machine") or outcome.rank is None:
        return
    code = ends.get(outcome.rank, 0)
    if outcome.kind == "machine":
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        raise MachineError(
            f"rank {outcome.rank} of the sandbox: {outcome.message} the submission, by {how}: that is the "
            "machine's fault; grade it again"
        )
    if code in (-24, -9):  # SIGXCPU; or, where a submission ignores that, the kernel's signal
        outcome.kind = "time"
        outcome.message = f"it used more than {limits.cpu_s:g} s of CPU time; {outcome.message}"
    elif code < 0:
        outcome.message += f" ({_SIGNALS.get(-code, 'it was ended')}: signal {-code})"
    else:
        outcome.message += f" (exit code {code}: does the program call sys.exit or os._exit?)"
