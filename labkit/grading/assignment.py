"""An assignment: what a submission must define, and the checks with their points."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Protocol

from labkit.errors import DataError
from labkit.grading.bench import OpenBench, SandboxBench, TrialBench
from labkit.grading.checks import COUNTS_ONLY
from labkit.grading.page import Grade
from labkit.grading.result import CheckResult, Verdict
from labkit.grading.sandbox import Limits, Sandbox
from labkit.grading.sandbox.notes import noted
from labkit.grading.seeds import Seed
from labkit.grading.trial import Fault, Trial, headline
from labkit.process.fingerprint import fingerprint
from labkit.process.imports import program_digests
from labkit.registry import course_files, module_of_file

__all__ = ["Assignment", "Check", "FeedbackHistory", "assignment_names", "find_assignment"]

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
        Further functions that it must define; a check names the one that it calls (`Correct.function`).
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
        raise DataError(
            f"{self.name} has no check {name!r}; it has {', '.join(c.name for c in self.checks)}",
            code="unknown-name",
        )

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
        function: Callable[..., object] | Mapping[str, Callable[..., object]],
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

    def _judge(self, bench: TrialBench, student: str, seed: int, only: Sequence[str] | None) -> Grade:
        began, began_work_s = time.monotonic(), time.process_time() + bench.worked_s
        chosen = self.checks if only is None else [self.check_named(name) for name in only]
        grade = Grade(student, self.name, seed=seed, containment=bench.containment)

        def is_spent() -> bool:
            return time.process_time() + bench.worked_s - began_work_s > self.budget_s

        rules = (self.only_messages, self.excluded_share)
        trial = Trial(bench, Seed(seed), *rules, is_spent=is_spent)
        told = FeedbackHistory()
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


# Causes, reported once: a check that fails for the same reason as another one refers to that one.


class FeedbackHistory:
    """What the feedback of one grade has said so far."""

    def __init__(self) -> None:
        self._causes: dict[str, str] = {}
        self._wrong = ""
        self._hints: set[str] = set()
        self._sentences: set[str] = set()

    def once(self, title: str, verdict: Verdict, fault: Fault | None) -> Verdict:
        """Return a check's verdict, with a short cause if an earlier check has reported it.

        `title`: The check's.
        `fault`: What was wrong with the run that the verdict is about.
        """
        verdict = replace(verdict, hint=_without(verdict.hint, ()))
        if verdict.score >= 1 or fault is None:
            return verdict
        if fault.words not in verdict.feedback and headline(fault.words) not in verdict.feedback:
            return verdict  # it is about something else: a bound, a share of the points
        before = self._causes.get(fault.cause, "")
        if not before and fault.kind == "wrong" and COUNTS_ONLY in verdict.feedback:
            before = self._wrong  # it does not say which result is wrong, only that one is
        if not before:
            self._causes[fault.cause] = title
            self._wrong = self._wrong or (title if fault.kind == "wrong" else "")
            self._hints.update(_sentences(verdict.hint))
            return verdict
        short = f"as in “{before}”"
        feedback = verdict.feedback
        for words in (fault.words, headline(fault.words)):
            feedback = feedback.replace(words, short, 1)
        return replace(verdict, feedback=feedback, hint=_without(verdict.hint, self._hints))

    def sentence(self, words: str) -> str:
        """Return a sentence the first time, and that it holds again afterwards."""
        if words in self._sentences:
            return "not judged, either"
        self._sentences.add(words)
        return words


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!])\s+", text)


def _without(text: str, said: Container[str]) -> str:
    """Leave out of a text the sentences that it, or somebody before, has said."""
    return " ".join(one for one in dict.fromkeys(_sentences(text)) if one not in said)


def assignment_names() -> list[str]:
    """Return the names of the course's assignments."""
    return list(course_files("assignments"))


def find_assignment(
    name: str | os.PathLike[str] | Assignment, folder: str | os.PathLike[str] | None = None
) -> Assignment:
    """Return an assignment.

    Parameters
    ----------
    name : str, path or Assignment
        One of the course's (`assignment_names`), or a Python file of the teacher's with an ``ASSIGNMENT`` in
        it.
    folder : path, optional
        Where the teacher's own assignments are looked for: ``"total"`` is then also ``total.py`` in there,
        and relative paths begin there. The file is executed: never a folder that students write in, except
        a student's own.

    Raises
    ------
    DataError
        It cannot be found.
    """
    if isinstance(name, Assignment):
        return name
    if str(name).endswith(".py"):
        return _from_file(Path(name) if folder is None else Path(folder, name))
    if str(name) in assignment_names():
        return _of_course(str(name))
    own = None if folder is None or not str(name).isidentifier() else Path(folder, f"{name}.py")
    if own is not None and own.is_file():
        return _from_file(own)
    missing = "" if own is None else f", and {str(own)!r} does not exist"
    raise DataError(
        f"no assignment is called {str(name)!r}; there are {', '.join(assignment_names())}, and files "
        f"that end in .py with an ASSIGNMENT in them{missing}",
        code="unknown-name",
    )


@cache
def _of_course(name: str) -> Assignment:
    return _from_file(course_files("assignments")[name], f"labkit.course.assignments.{name}")


def _from_file(path: Path, module: str = "") -> Assignment:
    found = getattr(module_of_file(path, module or f"assignment_{path.stem}"), "ASSIGNMENT", None)
    if not isinstance(found, Assignment):
        raise DataError(f"{str(path)!r} has no ASSIGNMENT = Assignment(...)", code="missing-definition")
    return replace(found, digest=fingerprint(program_digests(path)))
