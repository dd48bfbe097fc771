"""One trial of a submission: a case with its inputs, the run, and whether the result is right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labkit.errors import DataError
from labkit.grading.bench import Bench
from labkit.grading.counts import received_from
from labkit.grading.page import number
from labkit.grading.sandbox.outcome import Outcome
from labkit.grading.sandbox.wire import encode
from labkit.grading.seeds import Seed

__all__ = ["Case", "Oracle", "Trial", "failure_words", "first_line", "shown"]

_SHOWN_ITEMS, _SHOWN_RANKS = 12, 8
#: of what a rank needs, this much must have come in messages: less than all, for who packs it cleverly
_LEAST_SHARE = 0.75


@dataclass(frozen=True)
class Case:
    """An input for all ranks.

    Attributes
    ----------
    ranks : int
    arguments : sequence
        For each rank its arguments after the communicator.
    words : str
        What is special about it.
    inputs : sequence, optional
        What of the arguments a reader wants to see, for each rank.
    needs : callable, optional
        ``needs(case, results)``: for each rank the bytes of its result that it was not given and that nobody
        can guess. It must have received most of them in messages, else the result came on another way.
    origin : int, optional
        The rank that alone was given what the others need.
    """

    ranks: int
    arguments: Sequence[Sequence[Any]]
    words: str
    inputs: Sequence[Any] | None = None
    needs: Callable[[Case, list[Any]], Sequence[int]] | None = None
    origin: int | None = None

    def __str__(self) -> str:
        return f"{self.ranks} rank{'s' if self.ranks != 1 else ''}, {self.words}"

    def shown(self) -> str:
        """Return the inputs as text, when they are small enough to be read."""
        if self.inputs is None or self.ranks > _SHOWN_RANKS:
            return ""
        return "".join(f"\n  rank {rank} gets {shown(own)}" for rank, own in enumerate(self.inputs))


#: ``oracle(case, results)``: what is wrong with the results of all ranks, None if nothing is
Oracle = Callable[[Case, list[Any]], str | None]


@dataclass
class Trial:
    """What a check may use: the submission on its bench, and the student's seed.

    Attributes
    ----------
    bench : Bench
    seed : int
    only_messages : bool
        Whether collectives are excluded.
    endless : int
        How many runs did not end by themselves so far.
    """

    bench: Bench
    seed: int = 0
    only_messages: bool = False
    endless: int = 0
    _known: dict[Any, tuple[Any, Outcome]] = field(default_factory=dict)

    def run(self, case: Case, **how: Any) -> Outcome:
        """Run one case; checks that count different things on the same case share its run."""
        if case.needs is not None:
            how["trace"] = True
        key = (case.ranks, _digest(case.arguments), tuple(sorted(how.items())))
        if key not in self._known:
            self._known[key] = case, self._run(case, how)
        return self._known[key][1]

    def _run(self, case: Case, how: dict[str, Any]) -> Outcome:
        outcome = self.bench.run(
            case.ranks, case.arguments, seed=self._programs_seed(), only_messages=self.only_messages, **how
        )
        if outcome.kind in ("time", "budget"):
            self.endless += 1
            self.bench.hurry()
        return outcome

    def _programs_seed(self) -> int:
        """Return the seed of a program's own random numbers, which tells nothing of the inputs'."""
        return Seed.of(self.seed).number("program") % (1 << 31)

    def fault(self, case: Case, oracle: Oracle, **how: Any) -> tuple[str, str, Outcome]:
        """Run a case and judge its results: what is wrong in words, a hint, and the outcome."""
        outcome = self.run(case, **how)
        if not outcome.is_finished:
            words, hint = failure_words(outcome)
            return f"{words}{_printed(outcome)}", hint, outcome
        wrong = oracle(case, outcome.results) or _unreceived(case, outcome)
        return (f"{wrong}{_printed(outcome)}" if wrong else ""), "", outcome

    def smallest_failure(
        self, cases: Iterable[Case], oracle: Oracle, **how: Any
    ) -> tuple[Case, str, str] | None:
        """Return the first case that fails, with what is wrong and a hint; cases come smallest first."""
        for case in cases:
            wrong, hint, _ = self.fault(case, oracle, **how)
            if wrong:
                return case, wrong, hint
        return None


def _digest(arguments: Sequence[Sequence[Any]]) -> object:
    """Return what tells arguments apart: by their values, or, where they are not plain, by themselves."""
    found = hashlib.sha256()
    try:
        for own in arguments:
            parts: list[Any] = []
            found.update(json.dumps(encode(list(own), parts)).encode())
            for part in parts:
                found.update(part)
    except (DataError, ValueError):
        return id(arguments)
    return found.digest()


def _unreceived(case: Case, outcome: Outcome) -> str:
    """Say whether a rank knows what no message has brought it."""
    if case.needs is None or outcome.trace is None:
        return ""
    got = received_from(outcome.trace, case.ranks, case.origin)
    for rank, needed in enumerate(case.needs(case, outcome.results)):
        if got[rank] < needed * _LEAST_SHARE:
            whose = "" if case.origin is None else f" from rank {case.origin}, or from who had it from there"
            return (
                f"rank {rank} returned {number(needed)} bytes that it was not given, but received "
                f"{number(got[rank])} bytes in messages{whose}: data travels in messages"
            )
    return ""


def _printed(outcome: Outcome) -> str:
    text = outcome.printed()
    return f"\nprinted by the program:\n{text}" if text else ""


_HEADS = {
    "error": "the program raised an exception",
    "deadlock": "the program hangs: a deadlock",
    "mismatch": "the ranks do not call the same collectives",
    "time": "the program does not end",
    "memory": "the program needs more memory than it may use",
    "ended": "a rank's process ended before it had returned",
    "forbidden": "a call that this assignment excludes",
    "budget": "the program calls far too often",
    "protocol": "the rank did not answer as a rank does",
}
_HINTS = {
    "error": "The last line of the traceback says what; the line above it says where.",
    "deadlock": "Follow the cycle: who must send before it receives? Do all ranks take part, for any number "
    "of ranks? A send may wait for its receive.",
    "mismatch": "All ranks call a collective, in the same order, with the same root: is one inside an if?",
    "time": "Which loop has no end on that rank? Does its condition change in the loop?",
    "memory": "A rank may hold its own share of the data and a few small arrays, not everybody's.",
    "ended": "Take out sys.exit, os._exit and quit: a function returns its result.",
    "budget": "Wait with recv, wait or Waitall instead of asking again and again.",
}


def failure_words(outcome: Outcome) -> tuple[str, str]:
    """Return how a run failed, in words for the student, and a hint."""
    where = f" (rank {outcome.rank} of {outcome.ranks})" if outcome.rank is not None else ""
    message = outcome.message.strip()
    hint = _HINTS.get(outcome.kind, "")
    if outcome.kind == "error" and "PermissionError" in message:
        hint = "Submissions run without network, other processes, threads and files to write: take it out."
    return f"{_HEADS.get(outcome.kind, outcome.kind)}{where}:\n{message}", hint


def first_line(words: str) -> str:
    """Return the first line of what is wrong, where another check has said the rest."""
    return (words.splitlines() or [""])[0].rstrip(":")


def shown(value: Any) -> str:
    """Return a value as short text."""
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=_SHOWN_ITEMS, edgeitems=4, separator=", ")
        text = " ".join(text.split())
        return text if len(text) < 200 else f"{value.dtype} array of shape {value.shape}"
    text = repr(value)
    return text if len(text) < 200 else text[:200] + "..."
