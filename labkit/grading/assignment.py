"""An assignment: what a submission must define, and the checks with their points."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from labkit.errors import DataError
from labkit.grading.bench import Bench, OpenBench, SandboxBench
from labkit.grading.causes import Told
from labkit.grading.grade import Grade
from labkit.grading.result import CheckResult, Verdict
from labkit.grading.sandbox import Limits, Sandbox
from labkit.grading.sandbox.notes import noted
from labkit.grading.seeds import Seed
from labkit.grading.trial import Trial

__all__ = ["Assignment", "Check"]

#: runs that do not end, before the remaining checks are left out: each costs seconds
_MOST_ENDLESS = 4


class Check(Protocol):
    """One property that a submission is judged by."""

    @property
    def name(self) -> str:
        """By which it is chosen."""

    @property
    def title(self) -> str:
        """What students read."""

    @property
    def points(self) -> float:
        """What it is worth."""

    @property
    def is_bonus(self) -> bool:
        """Whether its points come on top."""

    @property
    def needs_simulation(self) -> bool:
        """Whether it judges counts or simulated times."""

    def judge(self, trial: Trial) -> Verdict:
        """Judge the submission."""


@dataclass(frozen=True)
class Assignment:
    """A task with its checks.

    Attributes
    ----------
    name, title : str
    function : str
        What a submission must define.
    also : sequence of str
        Functions that it must define besides; a check names the one that it calls (`Correct.function`).
    statement : str
        The task in a few sentences.
    checks : sequence of Check
    only_messages : bool
        Whether collectives are excluded.
    excluded_share : float
        What of a check of results is paid where they are right by an excluded collective: 0 to 1.
    limits : Limits
        Of each run.
    budget_s : float
        Seconds of a processor for all checks, the grader's own work counted: what is not judged by then gets
        no points. How busy the machine is does not count.
    digest : str
        Digest of the file that it comes from and of all modules that this imports, empty for one that comes
        with labkit: grades that were kept hold as long as it stays.
    """

    name: str
    title: str
    function: str
    statement: str
    checks: Sequence[Check]
    only_messages: bool = False
    excluded_share: float = 0.25
    limits: Limits = field(default_factory=Limits)
    budget_s: float = 600.0
    digest: str = field(default="", compare=False)
    also: Sequence[str] = ()

    @property
    def max_points(self) -> float:
        """The points of all checks but bonus ones."""
        return sum(check.points for check in self.checks if not check.is_bonus)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names that a submission must define."""
        return (self.function, *self.also)

    def check_named(self, name: str) -> Check:
        """Return one of the checks.

        Raises
        ------
        DataError
            There is none of that name.
        """
        for check in self.checks:
            if check.name == name:
                return check
        raise DataError(f"{self.name} has no check {name!r}; it has {', '.join(c.name for c in self.checks)}")

    def grade(
        self,
        source: str,
        *,
        student: str = "student",
        seed: int | None = None,
        accepts_weak: bool = False,
        only: Sequence[str] | None = None,
    ) -> Grade:
        """Grade a submission's source in the sandbox.

        Parameters
        ----------
        source : str
            Python source (`labkit.grading.read_submission` reads it from a file or notebook).
        student : str
        seed : int
            The student's (`student_seed`); default: a new one.
        accepts_weak : bool
            Also where the machine cannot contain it.
        only : sequence of str, optional
            Names of the checks to judge; default: all.

        Returns
        -------
        Grade

        Raises
        ------
        MachineError
            The sandbox does not work here.
        """
        with Sandbox(self.limits, accepts_weak=accepts_weak) as sandbox:
            seed = secrets.randbits(128) if seed is None else seed
            bench = SandboxBench(sandbox, source, self.function, self.also)
            grade = self._judge(bench, student, seed, only)
        grade.attempts = noted(sandbox.named, grade.attempts)
        return grade

    def try_out(
        self,
        function: Callable[..., Any] | Mapping[str, Callable[..., Any]],
        on: str | None = None,
        only: Sequence[str] | None = None,
    ) -> Grade:
        """Judge a function of this process: a student's own trial, or a teacher's solution.

        Parameters
        ----------
        function : callable, or dict of str to callable
            Where the assignment asks for several: the one that the chosen checks call, or all by name.
        on : str, optional
            ``"mpi"``: the checks of results on real MPI; those of counts and times say that they need a
            simulated machine.
        only : sequence of str, optional
            Names of the checks to judge.
        """
        return self._judge(OpenBench(function, on, self.limits), "you", 0, only)

    def _judge(self, bench: Bench, student: str, seed: int, only: Sequence[str] | None) -> Grade:
        began, began_work_s = time.monotonic(), time.process_time() + bench.worked_s
        chosen = self.checks if only is None else [self.check_named(name) for name in only]
        grade = Grade(student, self.name, seed=seed, containment=bench.containment)

        def is_spent() -> bool:
            return time.process_time() + bench.worked_s - began_work_s > self.budget_s

        rules = (self.only_messages, self.excluded_share)
        trial = Trial(bench, Seed(seed), *rules, is_spent=is_spent)
        told = Told()
        for check in chosen:
            if check.needs_simulation and not bench.is_simulated:
                continue
            if trial.endless >= _MOST_ENDLESS:
                verdict = Verdict(
                    0.0, told.sentence(f"not judged: {trial.endless} runs before it did not end")
                )
            elif is_spent():
                spent = f"not judged: the checks before it took all of the {self.budget_s:g} s there are"
                verdict = Verdict(0.0, told.sentence(spent))
            else:
                trial.fault_seen = None
                verdict = told.once(check.title, check.judge(trial), trial.fault_seen)
            points = round(check.points * min(max(verdict.score, 0.0), 1.0), 6)
            words = (verdict.feedback, verdict.hint, check.is_bonus)
            grade.results.append(CheckResult(check.name, check.title, points, check.points, *words))
        grade.attempts, grade.seconds = trial.attempts, time.monotonic() - began
        return grade
