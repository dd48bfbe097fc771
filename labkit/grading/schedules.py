"""Checks of schedules: a proof that they are complete or a counterexample, and their cost, counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.errors import ScheduleError
from labkit.grading.page import number
from labkit.grading.result import Verdict
from labkit.grading.sandbox.schedule_rows import schedule_from
from labkit.grading.seeds import Seed
from labkit.grading.trial import Trial, failure_words, unjudged
from labkit.schedule import Counterexample, Schedule, check, count
from labkit.text.units import number_of_ranks

__all__ = ["Proved", "ScheduleCosts", "Task"]


@dataclass(frozen=True)
class Task:
    """Which collective a schedule must be, and what it may use.

    Attributes
    ----------
    problem : str
        As in `labkit.schedule.PROBLEMS`.
    commutative : bool
    temporaries : tuple of str
        Names of work buffers.
    parts : callable
        ``parts(ranks)``: into how many blocks a message is cut.
    """

    problem: str
    commutative: bool = True
    temporaries: tuple[str, ...] = ()
    parts: Callable[[int], int] = lambda ranks: 1

    def ask(self, trial: Trial, size: int, ranks: list[int] | None = None, root: int = 0) -> Schedule | str:
        """Return the submission's schedule, or an error message."""
        parts = self.parts(size)
        names = list(self.temporaries)
        outcome = trial.rows([self.problem, size, root, self.commutative, parts, names, ranks])
        if not outcome.is_finished:
            return failure_words(outcome)[0]
        try:
            return schedule_from(
                outcome.results[0],
                self.problem,
                size,
                root=root,
                commutative=self.commutative,
                parts=parts,
                temporaries=self.temporaries,
            )
        except ScheduleError as error:
            return str(error)
        except Exception as error:
            return f"what was handed over is no schedule: {unjudged(error)}"


@dataclass(frozen=True)
class Proved:
    """The schedule keeps its collective's promise for every number of ranks tried: a proof for each.

    Attributes
    ----------
    name, title : str
    points : float
    task : Task
    ranks : sequence of int
        From small to large.
    hint : str
    drawn : (int, int, int), optional
        The least and the largest number of ranks, and how many between them are drawn for each grading.
    is_bonus : bool
    """

    name: str
    title: str
    points: float
    task: Task
    ranks: Sequence[int]
    hint: str = ""
    drawn: tuple[int, int, int] | None = None
    is_bonus: bool = False
    needs_simulation = False

    def judge(self, trial: Trial) -> Verdict:
        """Prove it for each number of ranks, or give the first counterexample."""
        sizes = _sizes(self, trial)
        for size in sizes:
            these = number_of_ranks(size)
            found = self.task.ask(trial, size)
            if isinstance(found, str):
                return Verdict(0.0, f"{these}: {found}", self.hint)
            result = _checked(found)
            if isinstance(result, str):
                return Verdict(0.0, f"{these}: {result}", self.hint)
            if isinstance(result, Counterexample):
                program = found.describe([result.rank]) if size <= 16 else ""
                return Verdict(
                    0.0,
                    f"Counterexample: {str(result).removeprefix('refuted: ')}\n{program}".rstrip(),
                    _hint(result, self.hint),
                )
            alone = self._alone(trial, found, size)
            if alone:
                return Verdict(
                    0.0, alone, "Build every number and mask from group.ranks and group.size alone."
                )
        tried = ", ".join(map(str, sizes))
        return Verdict(1.0, f"Proved complete, for all data and all block sizes, on {tried} ranks.")

    def _alone(self, trial: Trial, whole: Schedule, size: int) -> str:
        """Return a sentence if a rank described alone, as a real process does it, does something else."""
        rank, these = size - 1, number_of_ranks(size)
        one = self.task.ask(trial, size, [rank])
        if isinstance(one, str):
            return f"{these}, described for rank {rank} alone: {one}"
        if one.program(rank) != whole.program(rank):
            return f"{these}: rank {rank} described alone does something else than among all ranks"
        return ""


def _checked(found: Schedule) -> Any:
    """Prove a submission's schedule; return the message of what that raises."""
    try:
        return check(found)
    except Exception as error:
        return f"it cannot be proved: {unjudged(error)}"


_KIND_HINTS = {
    "deadlock": "Use group.sendrecv, or let one side receive first: a send may wait for its receive.",
    "order": "The operator need not commute: lower ranks' contributions go to the left (source_first).",
    "twice": "A contribution arrives on two ways: which message carries it again?",
    "missing value": "Which rank should have sent it, and in which round?",
    "undefined": "A block is read before anything was put there: copy or receive first.",
    "not waited": "Wait for every request that was posted.",
    "race": "A block is written while a message still uses it: take a second buffer, or wait first.",
    "unmatched": "Each send needs its receive on the other side, under the same condition (where=...).",
    "no rank": "A peer lies outside 0..p-1: mask it out with where=...",
}


def _hint(result: Counterexample, hint: str) -> str:
    return _KIND_HINTS.get(result.kind, hint) or hint


@dataclass(frozen=True)
class ScheduleCosts:
    """Rounds and volume on the slowest path stay within bounds, on schedules that are proved.

    Attributes
    ----------
    name, title : str
    points : float
    task : Task
    ranks : sequence of int
    rounds : callable
        ``rounds(size)``: the most rounds.
    volume : callable, optional
        ``volume(size)``: the most messages' worth of data that a rank may send, in units of the message.
    words : str
        The bound as a formula.
    drawn : (int, int, int), optional
        The least and the largest number of ranks, and how many between them are drawn for each grading.
    hint : str
    is_bonus : bool
    """

    name: str
    title: str
    points: float
    task: Task
    ranks: Sequence[int]
    rounds: Callable[[int], float]
    words: str
    volume: Callable[[int], float] | None = None
    drawn: tuple[int, int, int] | None = None
    hint: str = ""
    is_bonus: bool = False
    needs_simulation = True

    def judge(self, trial: Trial) -> Verdict:
        """Count on each number of ranks."""
        said = ""
        for size in _sizes(self, trial):
            these = number_of_ranks(size)
            found = self.task.ask(trial, size)
            if isinstance(found, str):
                return Verdict(0.0, f"{these}: {found}", self.hint)
            result = _checked(found)
            if isinstance(result, str):
                return Verdict(0.0, f"{these}: {result}", self.hint)
            if isinstance(result, Counterexample):
                return Verdict(0.0, f"{these}: rounds count only for a complete schedule: {result}")
            rounds, volume, _ = count(found, 1.0)
            if rounds > self.rounds(size):
                return Verdict(
                    0.0,
                    f"{these}: {number(rounds)} rounds one after another; at most {self.words} = "
                    f"{number(self.rounds(size))} are allowed.",
                    self.hint,
                )
            if self.volume is not None and volume > self.volume(size) + 1e-9:
                return Verdict(
                    0.0,
                    f"{these}: a rank sends {number(volume)} times the message; at most "
                    f"{number(self.volume(size))} times are allowed.",
                    self.hint,
                )
            said = f"{these}: {number(rounds)} rounds, at most {self.words} = {number(self.rounds(size))}."
            if self.volume is not None:
                most = number(self.volume(size))
                said = f"{these}: a rank sends {number(volume)} times the message, at most {most} times."
        return Verdict(1.0, said)


def _sizes(check: Proved | ScheduleCosts, trial: Trial) -> list[int]:
    """Return the numbers of ranks to try: those that are fixed, and those drawn for this grading."""
    drawn = () if check.drawn is None else Seed.of(trial.seed).ranks(*check.drawn, check.name)
    return sorted({*check.ranks, *drawn})


def ceil_log2(size: int) -> int:
    """Return the rounds that a doubling needs."""
    return int(np.ceil(np.log2(size))) if size > 1 else 0


def always(value: object) -> Callable[[int], object]:
    """Return a function that ignores its argument."""
    return lambda size: value
