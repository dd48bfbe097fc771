"""One trial of a submission: a case with its inputs, the run, and whether the result is right."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError, MachineError
from labkit.grading.bench import TrialBench
from labkit.grading.counts import received_from
from labkit.grading.page import number
from labkit.grading.sandbox.outcome import Outcome, Work
from labkit.grading.sandbox.wire import encode
from labkit.grading.seeds import Seed
from labkit.text.units import number_of_ranks

__all__ = [
    "Case",
    "Fault",
    "Oracle",
    "Trial",
    "cause_of",
    "failure_words",
    "headline",
    "instead_of",
    "one_instead_of",
    "shown",
    "type_and_shape",
    "unjudged",
    "wrong_integers",
    "wrong_of",
]

_SHOWN_ITEMS, _SHOWN_RANKS = 12, 8
_MOST_ATTEMPTS = 20
#: of results of runs that are kept for other checks: more than right ones have, far less than wrong ones may
_MOST_KEPT_BYTES = 128 << 20
#: of what a rank needs, this much must have come in messages: less than all, for who packs it cleverly
_LEAST_SHARE = 0.75


def _shared(results: Sequence[object]) -> list[object]:
    """Return results in which an array that is the same on the next rank, bit for bit, is there once."""
    shared: list[object] = []
    for result in results:
        before = shared[-1] if shared else None
        if isinstance(result, np.ndarray) and isinstance(before, np.ndarray):
            is_alike = (result.dtype, result.shape) == (before.dtype, before.shape)
            result = before if is_alike and result.tobytes() == before.tobytes() else result
        shared.append(result)
    return shared


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
    work : Work, optional
        Tasks that ranks may have done by calling their last argument, a function of the task's number.
    is_plain : bool
        The function takes no communicator: it runs once, and its result is `results[0]`.
    how : mapping
        Of `labkit.run`: ``on``, ``model``, and ``charges`` (False: only messages and tasks take time).
    """

    ranks: int
    arguments: Sequence[Sequence[Any]]
    words: str
    inputs: Sequence[Any] | None = None
    needs: Callable[[Case, list[Any]], Sequence[int]] | None = None
    origin: int | None = None
    work: Work | None = None
    is_plain: bool = False
    how: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.is_plain:
            return self.words
        return f"{number_of_ranks(self.ranks)}, {self.words}"

    def shown(self) -> str:
        """Return the inputs as text, when they are small enough to be read."""
        if self.inputs is None or self.ranks > _SHOWN_RANKS:
            return ""
        return "".join(f"\n  rank {rank} gets {shown(own)}" for rank, own in enumerate(self.inputs))


#: ``oracle(case, results)``: what is wrong with the results of all ranks, None if nothing is
Oracle = Callable[[Case, list[Any]], str | None]


@dataclass(frozen=True)
class Fault:
    """What was wrong with a run.

    `words`: Its description.
    `kind`: As in `Outcome.kind`, or "wrong" for a wrong result.
    `cause`: The same for runs that fail for the same reason: without numbers of ranks.
    """

    words: str
    kind: str
    cause: str


@dataclass
class Trial:
    """What a check may use: the submission on its bench, and the student's seed.

    Attributes
    ----------
    bench : TrialBench
    seed : int
    only_messages : bool
        Whether collectives are excluded.
    excluded_share : float
        What of a check of results is paid where they are right by such a collective.
    endless : int
        How many runs did not end by themselves so far.
    attempts : list of str
        What its processes said that they asked for and ranks are not given.
    fault_seen : Fault or None
        The last one that `fault` has found; who judges a check sets it back.
    is_spent : callable
        Whether the runs so far have taken all of the time there is: then none is begun any more.
    """

    bench: TrialBench
    seed: int = 0
    only_messages: bool = False
    excluded_share: float = 0.0
    endless: int = 0
    attempts: list[str] = field(default_factory=list)
    fault_seen: Fault | None = None
    is_spent: Callable[[], bool] = lambda: False
    _known: dict[object, tuple[object, Outcome]] = field(default_factory=dict)
    _kept_bytes: int = 0

    def run(self, case: Case, **how: object) -> Outcome:
        """Run one case; checks that count different things on the same case share its run."""
        how = {**case.how, **how}
        if case.needs is not None:
            how["trace"] = True
        work = () if case.work is None else (case.work.results, case.work.seconds)
        options = tuple(sorted(how.items(), key=lambda item: item[0]))
        key = (case.ranks, _digest([*case.arguments, work]), options)
        if key in self._known:
            return self._known[key][1]
        outcome = self._run(case, how)
        outcome.results[:] = _shared(outcome.results)
        distinct = {id(result): result for result in outcome.results}.values()
        size = sum(int(getattr(result, "nbytes", 0)) for result in distinct)
        if self._kept_bytes + size <= _MOST_KEPT_BYTES:
            self._kept_bytes += size
            self._known[key] = case, outcome
        return outcome

    def _run(self, case: Case, how: dict[str, object]) -> Outcome:
        if self.is_spent():
            return Outcome("spent", case.ranks, "the runs before it took all of the time there is")
        if case.work is not None:
            how["work"] = case.work
        if case.is_plain:
            how["is_plain"] = True
        how.setdefault("only_messages", self.only_messages)
        return self._noted(self.bench.run(case.ranks, case.arguments, seed=self._programs_seed(), **how))

    def rows(self, arguments: Sequence[object]) -> Outcome:
        """Describe the schedule as rows (`Bench.rows`), and note what was wrong if that fails."""
        if self.is_spent():
            outcome = Outcome("spent", 1, "the runs before it took all of the time there is")
        else:
            outcome = self._noted(self.bench.rows(arguments))
        if not outcome.is_finished:
            self.fault_seen = Fault(failure_words(outcome)[0], outcome.kind, cause_of(outcome))
        return outcome

    def _noted(self, outcome: Outcome) -> Outcome:
        self.attempts += [one for one in outcome.attempts if one not in self.attempts][:_MOST_ATTEMPTS]
        if outcome.kind in ("time", "budget"):
            self.endless += 1
            self.bench.hurry()
        return outcome

    def _programs_seed(self) -> int:
        """Return the seed of a program's own random numbers, which is independent of the inputs'."""
        return Seed.of(self.seed).number("program") % (1 << 31)

    def fault(self, case: Case, oracle: Oracle, **how: object) -> tuple[str, str, Outcome]:
        """Run a case and judge its results: an error message, a hint, and the outcome."""
        outcome = self.run(case, **how)
        if not outcome.is_finished:
            words, hint = failure_words(outcome)
            words = f"{words}{_printed(outcome)}"
            self.fault_seen = Fault(words, outcome.kind, cause_of(outcome))
            return words, hint, outcome
        wrong = _wrong(case, oracle, outcome)
        if wrong:
            head = headline(wrong)
            wrong = f"{wrong}{_printed(outcome)}"
            self.fault_seen = Fault(wrong, "wrong", re.sub(r"\brank \d+|\b\d+ ranks?\b", "rank", head))
        return wrong or "", "", outcome

    def smallest_failure(
        self, cases: Iterable[Case], oracle: Oracle, **how: object
    ) -> tuple[Case, str, str] | None:
        """Return the first case that fails, with what is wrong and a hint; cases come smallest first."""
        for case in cases:
            wrong, hint, _ = self.fault(case, oracle, **how)
            if wrong:
                return case, wrong, hint
        return None


def _wrong(case: Case, oracle: Oracle, outcome: Outcome) -> str | None:
    """Return as text what is wrong with the results; an error that the oracle raises on them counts, too."""
    try:
        return oracle(case, outcome.results) or _undone(case, outcome) or _unreceived(case, outcome)
    except MachineError:
        raise
    except Exception as error:
        results = outcome.results[:_SHOWN_RANKS]
        rows = "".join(f"\n  rank {rank} returned {shown(result)}" for rank, result in enumerate(results))
        return f"no right answer makes the judge fail with {unjudged(error)}{rows}"


def wrong_integers(wanted: Sequence[Any], results: Sequence[Any], what: str, item: str) -> str | None:
    """Return as text which rank did not return its block of integers; None if all did.

    Parameters
    ----------
    wanted : sequence of numpy.ndarray
        The block of each rank; blocks follow each other.
    results : sequence
    what, item : str
        What the numbers are ("distances"), and what each belongs to ("vertex").
    """
    first = 0
    for rank, (block, found) in enumerate(zip(wanted, results, strict=True)):
        if not isinstance(found, np.ndarray) or found.shape != block.shape:
            return f"rank {rank} returned {type_and_shape(found)}, expected an array of {len(block)} {what}"
        if found.dtype.kind not in "iu" and len(found):
            return f"rank {rank} returned {found.dtype}, expected integers"
        wrong = np.flatnonzero(found != block)
        if len(wrong):
            place = f"the first one is that of {item} {first + int(wrong[0])}"
            return f"rank {rank} returned {instead_of(found, block, found != block)}, {place}"
        first += len(block)
    return None


def wrong_of(count: int, of: int) -> str:
    """Return how many values are wrong: ``1 of 5 is wrong``."""
    return f"{count} of {of} {'is' if count == 1 else 'are'} wrong"


def instead_of(found: NDArray[np.generic], wanted: NDArray[np.generic], wrong: NDArray[np.bool_]) -> str:
    """Return arrays of the same shape as ``[1, 2], expected [1, 3]: 1 of 2 is wrong``.

    `wrong`: Which values are. Of arrays whose short texts are the same the first one of them is shown.
    """
    texts = shown(found), shown(wanted)
    count = wrong_of(int(wrong.sum()), wrong.size)
    if texts[0] != texts[1] and texts[0] != type_and_shape(found):
        return f"{texts[0]}, expected {texts[1]}: {count}"
    at = tuple(int(index) for index in np.argwhere(wrong)[0])
    got, right = one_instead_of(found[at], wanted[at])
    return f"{got} at index {list(at)}, expected {right}: {count}"


def one_instead_of(found: np.generic, wanted: np.generic) -> tuple[str, str]:
    """Return two numbers as text, with their bits where these are all that differs, as of NaNs."""
    texts = str(found), str(wanted)
    if texts[0] != texts[1]:
        return texts
    got, right = (f"{one} (bits {one.tobytes()[::-1].hex()})" for one in (found, wanted))
    return got, right


def unjudged(error: Exception) -> str:
    """Return what the judging of a submission's values raised, in short."""
    try:
        return f"{type(error).__name__}: {str(error)[:200]}"
    except Exception:
        return type(error).__name__


def _digest(arguments: Sequence[Sequence[object]]) -> object:
    """Return a key of arguments: their values, or, where they are not plain, the objects."""
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


def _undone(case: Case, outcome: Outcome) -> str:
    """Return as text which task was not done that the result takes, or was done and is not taken."""
    if case.work is None:
        return ""
    wanted = case.work.wanted()
    done = {task for own in outcome.tasks for task in own}
    if left := sorted(wanted - done):
        return f"no rank has had task {left[0]} done, one of {len(left)}: a result is computed, not guessed"
    if others := sorted(done - wanted):
        return f"task {others[0]} was done, one of {len(others)} that the result does not need"
    return ""


def _unreceived(case: Case, outcome: Outcome) -> str:
    """Return as text whether a rank knows what no message has brought it."""
    if case.needs is None or outcome.trace is None:
        return ""
    got = received_from(outcome.trace, case.ranks, case.origin, outcome.cut)
    if case.work is not None:
        given = [sum(case.work.n_bytes(task) for task in set(own)) for own in outcome.tasks]
        got = [mine + of_tasks for mine, of_tasks in zip(got, given, strict=True)]
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
    "spent": "the program takes too long",
    "memory": "the program needs more memory than it may use",
    "ended": "a rank's process ended before it had returned",
    "forbidden": "a call that this assignment excludes",
    "budget": "the program calls far too often",
    "protocol": "the rank did not answer as a rank does",
    "source": "the source cannot be loaded",
}
_HINTS = {
    "error": "The last line of the traceback names the error; the line above it shows where it happened.",
    "deadlock": "Follow the cycle: who must send before it receives? Do all ranks take part, for any number "
    "of ranks? A send may wait for its receive.",
    "mismatch": "All ranks call a collective, in the same order, with the same root: is one inside an if?",
    "spent": "All runs share one limit of time: which step of the program takes most of it?",
    "time": "Which loop has no end on that rank? Does its condition change in the loop?",
    "forbidden": "Build it from messages: send, recv, isend, irecv, sendrecv and their upper-case spellings.",
    "memory": "A rank may hold its own share of the data and a few small arrays, not everybody's.",
    "ended": "Take out sys.exit, os._exit and quit: a function returns its result.",
    "budget": "Wait with recv, wait or Waitall instead of asking again and again.",
}


def failure_words(outcome: Outcome) -> tuple[str, str]:
    """Return how a run failed, as a message for the student, and a hint."""
    where = (
        f" (rank {outcome.rank} of {outcome.ranks})" if outcome.rank is not None and outcome.ranks > 1 else ""
    )
    message = outcome.message.strip()
    hint = _HINTS.get(outcome.kind, "")
    if outcome.kind == "error" and "PermissionError" in message:
        hint = (
            "Submissions run without network, other processes, threads, event loops (asyncio, select) and "
            "files to write: take it out."
        )
    return f"{_HEADS.get(outcome.kind, outcome.kind)}{where}:\n{message}", hint


def cause_of(outcome: Outcome) -> str:
    """Return what the same mistake gives on other ranks and inputs, too: kind, lines and error."""
    lines = sorted(set(re.findall(r"submission\.py\"?(?:, line |:)(\d+)", outcome.message)))
    last = (outcome.message.strip().splitlines() or [""])[-1] if outcome.kind == "error" else ""
    return " ".join([outcome.kind, *lines, re.sub(r"\d+", "#", last)])


def headline(words: str) -> str:
    """Return the first line of what is wrong, and a rest of one line; longer ones are reported elsewhere."""
    head, *rest = words.splitlines() or [""]
    return f"{head} {rest[0].strip()}" if len(rest) == 1 and head.endswith(":") else head.rstrip(":")


def shown(value: object) -> str:
    """Return a value as short text; of one that cannot be written, such as a huge integer, its type."""
    try:
        return _shown(value)
    except Exception as error:
        return f"{type(value).__name__} that cannot be shown ({type(error).__name__})"


def type_and_shape(value: object) -> str:
    """Return an array's type and shape; anything else as text with its type: a list looks like an array."""
    if not isinstance(value, np.ndarray):
        return shown(value) if value is None else f"{shown(value)} of type {type(value).__name__}"
    return f"{value.dtype} array of shape {value.shape}"


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=_SHOWN_ITEMS, edgeitems=4, separator=", ")
        text = " ".join(text.split())
        return text if len(text) < 200 else f"{value.dtype} array of shape {value.shape}"
    text = repr(value)
    return text if len(text) < 200 else text[:200] + "..."
