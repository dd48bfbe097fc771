"""The test bench of a submission: the sandbox, or, for the user's own trials, this process."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import operator
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from labkit.comm.surface import METHODS
from labkit.errors import DataError, DeadlockError, LabkitError, MismatchError, RankError, TimeLimitError
from labkit.grading.needed import without_trials
from labkit.grading.sandbox.caller import SUBMISSION
from labkit.grading.sandbox.outcome import Limits, Outcome, Work
from labkit.grading.sandbox.sandbox import Sandbox
from labkit.grading.sandbox.schedule_rows import rows_of
from labkit.process.limited import limited
from labkit.program import context

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["OpenBench", "SandboxBench", "TrialBench", "use"]


#: CPU time of a rank, and calls of all, once a run has not ended: still more than shipped assignments need
_SHORT_CPU_S, _FEW_REQUESTS = 1.0, 20_000
_MOST_LINES = 8


class TrialBench(Protocol):
    """A place where a submission's function can be run."""

    @property
    def is_simulated(self) -> bool:
        """Whether messages are counted and times simulated."""

    @property
    def containment(self) -> str:
        """What stands around the submission."""

    @property
    def worked_s(self) -> float:
        """Seconds of a processor that runs have used in separate processes."""

    def run(self, ranks: int, arguments: Sequence[Sequence[object]], **how: object) -> Outcome:
        """Run the function on ranks, each with its own arguments after the communicator."""

    def rows(self, arguments: Sequence[object]) -> Outcome:
        """Describe the schedule as rows (`labkit.grading.sandbox.schedule_rows`)."""

    def hurry(self) -> None:
        """Give later runs less time: an earlier one did not end."""


@dataclass
class SandboxBench:
    """A submission's source in the sandbox: what grading uses.

    `sandbox`: Started.
    `also`: Other functions that are asked for.
    """

    sandbox: Sandbox
    source: str
    function: str
    also: Sequence[str] = ()
    limits: Limits = field(init=False)
    _is_shortened: bool = field(default=False, init=False)
    is_simulated = True

    def __post_init__(self) -> None:
        self.limits = self.sandbox.limits

    @property
    def worked_s(self) -> float:
        """Seconds of a processor that its runs have used."""
        return self.sandbox.worked_s

    @property
    def containment(self) -> str:
        """What stands around the submission."""
        return str(self.sandbox.containment)

    def run(self, ranks: int, arguments: Sequence[Sequence[object]], **how: Any) -> Outcome:
        """Run the function on ranks in separate processes."""
        name = how.pop("function", self.function)

        def run() -> Outcome:
            how["talks_early"] = self._is_shortened
            return self.sandbox.run(self.source, name, ranks, arguments, **how)

        outcome = self._loaded(run)
        outcome.message += _lines_named(outcome.message, self.source)
        return outcome

    def rows(self, arguments: Sequence[object]) -> Outcome:
        """Describe the schedule, in a separate process."""
        return self._loaded(lambda: self.sandbox.call(self.source, self.function, [arguments]))

    def _loaded(self, run: Callable[[], Outcome]) -> Outcome:
        """Run; where loading the source communicates or fails, once more without what only tries things out.

        A script that ends with its own trial would pay for it in every run. Of a notebook no trial is
        taken in the first place.
        """
        outcome = self._tried(run)
        if outcome.is_loading and not self._is_shortened:
            self._is_shortened = True
            try:
                self.source = limited(without_trials, self.source, (self.function, *self.also))
            except DataError:
                return outcome
            outcome = self._tried(run)
        return outcome

    def _tried(self, run: Callable[[], Outcome]) -> Outcome:
        """Run concurrently with others; repeat what has reached a time limit, alone and with all limits.

        Work of others on the machine makes every processor slower: it must cost nobody points.
        """
        with beside_others():
            outcome = run()
        if outcome.kind == "time":
            limits, self.sandbox.limits = self.sandbox.limits, self.limits
            try:
                with alone():
                    outcome = run()
            finally:
                self.sandbox.limits = limits
        return outcome

    def hurry(self) -> None:
        """Give later runs less time."""
        limits = self.sandbox.limits
        short_s, few = min(limits.cpu_s, _SHORT_CPU_S), min(limits.requests, _FEW_REQUESTS)
        self.sandbox.limits = replace(limits, cpu_s=short_s, requests=few, vain_polls=500, idle_s=2)


def _lines_named(message: str, source: str) -> str:
    """Return the lines that a report names by number: nobody sees the file that a notebook becomes."""
    if "Traceback" in message:  # it shows them
        return ""
    lines = source.splitlines()
    found = dict.fromkeys(int(number) for number in re.findall(rf"{re.escape(SUBMISSION)}:(\d+)", message))
    named = [n for n in found if 0 < n <= len(lines)][:_MOST_LINES]
    return "".join(f"\n  {SUBMISSION}:{n}: {lines[n - 1].strip()[:120]}" for n in named)


@dataclass
class OpenBench:
    """A function of this process: for a student's own trials, and for a teacher's trusted code.

    `function`: One function, whichever is asked for; or those of an assignment by name.
    `on`: ``"mpi"``: every run on real MPI, where nothing is counted. Default: simulated machines.
    """

    function: Callable[..., Any] | Mapping[str, Callable[..., Any]]
    on: str | None = None
    limits: Limits = field(default_factory=Limits)
    worked_s = 0.0

    @property
    def is_simulated(self) -> bool:
        """Whether messages are counted and times simulated."""
        return self.on != "mpi"

    @property
    def containment(self) -> str:
        """Nothing stands around it."""
        where = "real MPI" if self.on == "mpi" else "simulated machines"
        return f"a trial of your own on {where}: nothing is contained, and nothing counts"

    def run(self, ranks: int, arguments: Sequence[Sequence[object]], **how: Any) -> Outcome:
        """Run the function on ranks."""
        from labkit.launch.run import run

        function = self._named(how.pop("function", None))
        # of each run's and rank's own: what a function changes in place must not change what it is judged by
        given = [copy.deepcopy(tuple(own)) for own in arguments]
        only_messages, charges = how.pop("only_messages", False), how.pop("charges", True)
        work, is_plain = how.pop("work", None), how.pop("is_plain", False)
        how.pop("packs", None)  # there is no line on which anything comes

        def program(comm: Intracomm) -> object:
            machine: Any = context.current()
            if is_plain:
                return function(*given[0]), []
            # the class's own: the machine is one for all ranks, and may have lost its own to another one
            charge = None if machine is None else partial(type(machine).compute, machine)
            if not charges and machine is not None:
                machine.compute = machine.sleep = lambda *_: None
            done: list[int] = []
            tasks = () if work is None else (_tasks(work, charge, done),)
            return function(_MessagesOnly(comm) if only_messages else comm, *given[comm.rank], *tasks), done

        if not self.is_simulated:
            how = {"on": "mpi", "seed": how.get("seed", 0)}
        try:
            found = run(program, ranks, timeout_s=self.limits.wall_s, **how)
        except (RankError, DeadlockError, MismatchError, TimeLimitError) as error:
            outcome = Outcome(_KINDS[type(error)], ranks, str(error), getattr(error, "rank", None))
            if "The task is to build it from messages" in outcome.message:
                outcome.kind = "forbidden"
            outcome.output = list(error.output)
            return outcome
        return Outcome(
            "finished",
            ranks,
            results=[result for result, _ in found.results],
            makespan_s=found.makespan_s,
            messages=found.messages,
            bytes=found.bytes,
            trace=found.trace,
            output=list(found.output),
            tasks=[done for _, done in found.results],
        )

    def _named(self, name: str | None) -> Callable[..., object]:
        if not isinstance(self.function, Mapping):
            return self.function
        return self.function[name] if name else next(iter(self.function.values()))

    def rows(self, arguments: Sequence[object]) -> Outcome:
        """Describe the schedule."""
        try:
            return Outcome("finished", 1, results=[rows_of(self._named(None), arguments)])
        except (LabkitError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            return Outcome("error", 1, f"{type(error).__name__}: {error}", 0)

    def hurry(self) -> None:
        """Give later runs less time."""
        self.limits = replace(self.limits, wall_s=min(self.limits.wall_s, 10.0))


def _tasks(work: Work, charge: Callable[..., object] | None, done: list[int]) -> Callable[[int], object]:
    """Return the function by which a rank of this process has tasks done."""

    def task(number: int) -> object:
        done.append(work.number_of(operator.index(number)))
        if charge is not None:
            charge(work.seconds[number], None)
        return copy.copy(work.results[number])

    return task


_KINDS: dict[type[LabkitError], str] = {
    RankError: "error",
    DeadlockError: "deadlock",
    MismatchError: "mismatch",
    TimeLimitError: "time",
}
_COLLECTIVES = frozenset(
    row.name.lower()
    for row in METHODS
    if row.kind in ("collective", "neighbor") and row.base.lower() != "barrier"
)


class _MessagesOnly:
    """A communicator without collectives, as graded runs of some assignments have it."""

    def __init__(self, comm: Intracomm) -> None:
        self._comm = comm

    def __getattr__(self, name: str) -> object:
        if name.lower() in _COLLECTIVES:
            raise AttributeError(
                f"comm.{name}: The task is to build it from messages: send, recv, isend, irecv, sendrecv and "
                "their upper-case spellings are allowed"
            )
        return getattr(self._comm, name)


# Turns of concurrent graders: a run next to others; alone, where it is repeated.


#: bytes of the file: who holds the first runs; who holds the second keeps others from beginning
_RUN, _GATE = 0, 1
#: after so long a grader goes ahead: another one that hangs must not hold up the class
_PATIENCE_S = 120.0
_LOOK_S = 0.02
_path: list[Path] = []


def use(path: Path | None) -> None:
    """Take turns with all processes that use the same file; None: with nobody."""
    _path[:] = [] if path is None else [path]


@contextlib.contextmanager
def beside_others() -> Iterator[None]:
    """Run while nobody has asked to be alone."""
    with _file() as descriptor:
        if descriptor is not None and _hold(descriptor, _GATE, fcntl.LOCK_SH):
            _hold(descriptor, _RUN, fcntl.LOCK_SH)
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, _GATE)
        yield


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Run while no other grader's submission does."""
    with _file() as descriptor:
        if descriptor is not None and _hold(descriptor, _GATE, fcntl.LOCK_EX):
            _hold(descriptor, _RUN, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _file() -> Iterator[int | None]:
    """Open the file; whoever closes it, or dies, lets go of what it holds."""
    try:
        descriptor = os.open(_path[0], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) if _path else None
    except OSError:
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _hold(descriptor: int, byte: int, kind: int) -> bool:
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.lockf(descriptor, kind | fcntl.LOCK_NB, 1, byte)
        except OSError:
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_LOOK_S)
        else:
            return True
