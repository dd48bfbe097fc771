"""Checks of programs: right results, bounded messages, rounds and volume, and how the time grows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from labkit.grading.counts import (
    ENVELOPE_BYTES,
    busiest_bytes,
    chain_of,
    left_over,
    long_messages,
    most_told,
    rounds_of,
    uncounted,
)
from labkit.grading.page import amount
from labkit.grading.result import Verdict
from labkit.grading.sandbox.outcome import Outcome
from labkit.grading.seeds import Seed
from labkit.grading.trial import Case, Oracle, Trial, headline, instead_of, shown
from labkit.text.html import quantity

__all__ = ["COUNTS_ONLY", "Bound", "Correct", "Costs", "Scaling", "everybody_has_it"]

#: begins what is said of a run whose result is wrong, where its cost was to be judged
COUNTS_ONLY = "the cost of a run counts only when its result is right by allowed calls; this one is not"
#: inputs that growth is measured on before it costs points: samples drawn at random may be unlucky once
_DRAWS = 3


def everybody_has_it(case: Case, results: list[object]) -> str | None:
    """Return as text which rank has not returned the very array that a rank was given; None if all have."""
    wanted = next(own[0] for own in case.arguments if own[0] is not None)
    for rank, found in enumerate(results):
        if not isinstance(found, np.ndarray):
            return f"rank {rank} returned {shown(found)}, not an array: does every rank return it?"
        if found.dtype != wanted.dtype or found.shape != wanted.shape:
            return (
                f"rank {rank} returned {found.dtype} of shape {found.shape}, "
                f"expected {wanted.dtype} of shape {wanted.shape}"
            )
        if found.tobytes() != wanted.tobytes():
            bits = [
                np.frombuffer(one.tobytes(), np.uint8).reshape(-1, one.itemsize) for one in (found, wanted)
            ]
            wrong = (bits[0] != bits[1]).any(1).reshape(wanted.shape)
            return f"rank {rank} returned {instead_of(found, wanted, wrong)}"
    return None


def star_of(ranks: int) -> str:
    """Return a star with a host for each rank."""
    return f"star:{ranks}"


@dataclass(frozen=True)
class Correct:
    """The results are right, on every case.

    Attributes
    ----------
    name, title : str
    points : float
    cases : callable
        ``cases(seed)``: the cases, smallest first.
    oracle : callable
        ``oracle(case, results)``: what is wrong, or None.
    hint : str
        Where to look, when a result is wrong.
    is_bonus : bool
    function : str
        Which of the assignment's functions the cases call; default: the first.
    leaves_none : bool
        Whether a message that has not been received when the function returns is wrong.
    """

    name: str
    title: str
    points: float
    cases: Callable[[int], Iterable[Case]]
    oracle: Oracle
    hint: str = ""
    is_bonus: bool = False
    function: str = ""
    leaves_none: bool = False
    needs_simulation = False

    def judge(self, trial: Trial) -> Verdict:
        """Try the cases, from the smallest on, until one fails."""
        count, most = 0, 0
        excluded, excluded_hint, is_plain = "", "", False
        for case in self.cases(trial.seed):
            how: dict[str, object] = {"only_messages": False} if excluded else {}
            if self.function:
                how["function"] = self.function
            if self.leaves_none:
                how["trace"] = True
            wrong, hint, outcome = trial.fault(case, self.oracle, **how)
            if outcome.kind == "forbidden" and trial.excluded_share > 0:
                excluded, excluded_hint = wrong, hint
                if not trial.fault(case, self.oracle, **{**how, "only_messages": False})[0]:
                    wrong = ""
            wrong = wrong or (left_over(outcome.trace) if self.leaves_none else "")
            if wrong:
                smaller = "1 smaller case was" if count == 1 else f"{count} smaller cases were"
                passed = f" ({smaller} right)" if count else ""
                return Verdict(
                    0.0,
                    f"Smallest failing case: {case}{passed}: {wrong}{case.shown()}",
                    f"{hint} {self.hint}".strip(),
                )
            count, most, is_plain = count + 1, max(most, case.ranks), case.is_plain
        if excluded:
            return Verdict(
                trial.excluded_share,
                f"Right in all {count} cases, for {trial.excluded_share:.0%} of the points: {excluded}",
                excluded_hint,
            )
        return Verdict(1.0, f"Right in all {count} cases{'' if is_plain else f', on up to {most} ranks'}.")


@dataclass(frozen=True)
class Bound:
    """A count that may not be exceeded.

    Attributes
    ----------
    what : str
        "messages", "bytes", "rounds", "chain" (of messages, each sent after its sender has received the one
        before), "received" (bytes sent to the busiest rank), "told" (bytes that calls have brought it, packed
        by the grader: however a program writes data down), "sent" or "seconds" (simulated). Messages that
        nobody receives count as well. Of bytes received, told or sent each message counts
        `labkit.grading.counts.ENVELOPE_BYTES` more than its content. What a rank is told is counted in the
        sandbox alone.
    most : callable
        ``most(case)``: the largest value allowed.
    words : str
        The bound as a formula.
    least_bytes : callable, optional
        ``least_bytes(case)``. Of "messages": only those of at least this size count.
    """

    what: str
    most: Callable[[Case], float]
    words: str
    least_bytes: Callable[[Case], int] | None = None

    def value(self, outcome: Outcome, case: Case) -> float:
        """Return what the engine counted."""
        if self.least_bytes is not None:
            return float(long_messages(outcome.trace, self.least_bytes(case)))
        if self.what in ("messages", "bytes"):
            n_messages, n_bytes = uncounted(outcome.trace)
            own = outcome.messages if self.what == "messages" else outcome.bytes
            return float((own or 0) + (n_messages if self.what == "messages" else n_bytes))
        if self.what == "seconds":
            return outcome.makespan_s
        if self.what == "told":
            return float(most_told(outcome.trace, outcome.told, ENVELOPE_BYTES)) if outcome.told else 0.0
        if self.what == "rounds":
            return float(rounds_of(outcome.trace, outcome.ranks))
        if self.what == "chain":
            return float(chain_of(outcome.trace, outcome.ranks))
        return float(busiest_bytes(outcome.trace, outcome.ranks, self.what, ENVELOPE_BYTES))


_NAMES = {
    "messages": "messages in all",
    "bytes": "bytes in all messages",
    "rounds": "rounds (messages one after another; a rank sends one and receives one at a time)",
    "chain": "messages in a chain, each sent after its sender has received the one before",
    "received": "bytes received by the busiest rank",
    "told": "bytes, packed, delivered to the busiest rank",
    "sent": "bytes sent by the busiest rank",
    "seconds": "of simulated time",
}


def _named(bound: Bound, case: Case) -> str:
    if bound.least_bytes is not None:
        return f"messages of {bound.least_bytes(case)} bytes or more"
    return _NAMES[bound.what]


def _counting(bounds: Sequence[Bound]) -> dict[str, object]:
    """Return the options of a run in which bounds are counted."""
    how: dict[str, object] = {"trace": True} if bounds else {}
    return {**how, "packs": True} if any(bound.what == "told" for bound in bounds) else how


def _exceeded(case: Case, bound: Bound, value: float, most: float) -> str:
    found, allowed = _amounts(bound, value, most)
    return f"{case}: {found} {_named(bound, case)}; at most {allowed} are allowed."


def _outgrown(check: Costs, few: tuple[Case, float], many: tuple[Case, float]) -> str:
    (small, before), (large, after) = few, many
    return (
        f"From {small.ranks} to {large.ranks} ranks the {_NAMES[check.bounds[0].what]} grow from "
        f"{amount(before)} to {amount(after)}; at most {check.most_growth:g} times as many are allowed."
    )


def _amounts(bound: Bound, value: float, most: float) -> tuple[str, str]:
    """Return what was found, and what is allowed: the formula and its value."""
    found, allowed = (quantity(one, "s") if bound.what == "seconds" else amount(one) for one in (value, most))
    return found, allowed if allowed == bound.words else f"{bound.words} = {allowed}"


@dataclass(frozen=True)
class Costs:
    """Messages, rounds or bytes stay within bounds, as the engine counts them, on runs with right results.

    Attributes
    ----------
    name, title : str
    points : float
    cases : callable
    oracle : callable
    bounds : sequence of Bound
    hint : str
    is_bonus : bool
    most_growth : float, optional
        From a case to a later one of the same size the first bound's count grows at most by this factor: a
        bound alone is met on few ranks by whoever packs what grows too fast.
    size : callable, optional
        ``size(case)``: growth is judged between cases for which it is equal. Default: between all.
    """

    name: str
    title: str
    points: float
    cases: Callable[[int], Iterable[Case]]
    oracle: Oracle
    bounds: Sequence[Bound]
    hint: str = ""
    is_bonus: bool = False
    most_growth: float | None = None
    size: Callable[[Case], object] = lambda case: None
    needs_simulation = True

    def judge(self, trial: Trial) -> Verdict:
        """Count on every case, from the smallest on, until a bound is exceeded."""
        first: dict[object, tuple[Case, float]] = {}
        case = seen = None
        for case in self.cases(trial.seed):
            wrong, hint, outcome = trial.fault(case, self.oracle, **_counting(self.bounds))
            if wrong:
                return Verdict(0.0, f"{case}: {COUNTS_ONLY}: {headline(wrong)}", hint)
            for bound in self.bounds:
                value, most = bound.value(outcome, case), bound.most(case)
                if value > most:
                    return Verdict(0.0, _exceeded(case, bound, value, most), self.hint)
            main = self.bounds[0]
            counted = main.value(outcome, case)
            found, allowed = _amounts(main, counted, main.most(case))
            seen = f"{found} {_named(main, case)}, of at most {allowed}"
            before = first.setdefault(self.size(case), (case, counted))
            if self.most_growth is not None and counted > self.most_growth * before[1]:
                return Verdict(0.0, _outgrown(self, before, (case, counted)), self.hint)
        return Verdict(1.0, f"On {case}: {seen}.")


@dataclass(frozen=True)
class Scaling:
    """The simulated time of the messages grows with the ranks as promised, judged by labkit's verdict.

    Time that a submission charges itself, or sleeps, does not pass: slow runs on few ranks are not to be had
    for that. Those that are slow by messages that nobody needs exceed the bounds.

    Attributes
    ----------
    name, title : str
    points : float
    case : callable
        ``case(ranks, seed)``.
    oracle : callable
    expectation : str
        In big-O notation, such as ``"log p"``.
    ranks : sequence of int
        At least five.
    on : callable
        ``on(ranks)``: the platform.
    slack : float
        From end to end the time may change by this multiple of the expectation: a model with a large
        constant next to a falling term is no speedup.
    bounds : sequence of Bound
        Counts that hold on every number of ranks.
    drawn : (int, int, int), optional
        The least and the largest number of ranks, and how many between them are drawn for each grading: there
        the bounds hold as well. Who knows `ranks` must not do something else on others.
    also : callable, optional
        ``also(seed)``: cases on which the bounds hold as well, such as other types and lengths.
    most_decrease : float, optional
        Among the drawn numbers of ranks, powers of two excluded, the longest chain of messages on fewer ranks
        is at most this multiple of that on more ("chain" of `Bound`): what is slow on some numbers is found.
    hint : str
    is_bonus : bool
    """

    name: str
    title: str
    points: float
    case: Callable[[int, int], Case]
    oracle: Oracle
    expectation: str
    ranks: Sequence[int] = (4, 8, 16, 32, 64)
    on: Callable[[int], str] = star_of
    slack: float = 3.0
    bounds: Sequence[Bound] = ()
    drawn: tuple[int, int, int] | None = None
    also: Callable[[int], Iterable[Case]] = lambda seed: ()
    most_decrease: float | None = None
    hint: str = ""
    is_bonus: bool = False
    needs_simulation = True

    def judge(self, trial: Trial) -> Verdict:
        """Measure, fit, and compare with the expectation; on other inputs, too, before it costs points."""
        runs = self._runs([self.case(ranks, trial.seed) for ranks in self._elsewhere(trial)], trial)
        if not isinstance(runs, Verdict):
            runs = self._longer_on_fewer(runs) or self._runs(self.also(trial.seed), trial)
        if isinstance(runs, Verdict):
            return runs
        before: list[list[float]] = []
        for seed in _drawn_anew(trial.seed):
            found = self._times(trial, seed)
            if isinstance(found, Verdict):
                return found
            verdict = self.verdict_of(found)
            if verdict.score > 0 or found in before:  # the inputs make no difference
                break
            before.append(found)
        return verdict

    def _elsewhere(self, trial: Trial) -> list[int]:
        """Return the drawn numbers of ranks; one that is measured anyway makes room for the next."""
        if self.drawn is None:
            return []
        least, most, count = self.drawn
        drawn = Seed.of(trial.seed).ranks(least, most, count, self.name)
        return sorted({ranks + (ranks in self.ranks and ranks < most) for ranks in drawn})

    def _times(self, trial: Trial, seed: int) -> list[float] | Verdict:
        """Return the simulated times, or what is wrong with a run."""
        runs = self._runs((self.case(ranks, seed) for ranks in self.ranks), trial)
        return runs if isinstance(runs, Verdict) else [run.makespan_s for run in runs]

    def _longer_on_fewer(self, runs: Sequence[Outcome]) -> Verdict | None:
        """Return what is wrong where a chain of messages is far longer than on more ranks."""
        if self.most_decrease is None:
            return None
        chains = [(run.ranks, chain_of(run.trace, run.ranks)) for run in runs if run.ranks & (run.ranks - 1)]
        for (few, before), (many, after) in itertools.combinations(chains, 2):
            if before > self.most_decrease * after:
                return Verdict(
                    0.0,
                    f"On {few} ranks {before} {_NAMES['chain']}, on {many} ranks only {after}; "
                    f"at most {self.most_decrease:g} times as many are allowed.",
                    self.hint,
                )
        return None

    def _runs(self, cases: Iterable[Case], trial: Trial) -> list[Outcome] | Verdict:
        runs: list[Outcome] = []
        for case in cases:
            wrong, hint, outcome = self._run(trial, case)
            if wrong:
                return Verdict(0.0, f"{case}: {COUNTS_ONLY}: {headline(wrong)}", hint)
            for bound in self.bounds:
                if (value := bound.value(outcome, case)) > (most := bound.most(case)):
                    return Verdict(0.0, _exceeded(case, bound, value, most), self.hint)
            runs.append(outcome)
        return runs

    def _run(self, trial: Trial, case: Case) -> tuple[str, str, Outcome]:
        how = _counting(self.bounds)
        return trial.fault(
            case, self.oracle, **{"on": self.on(case.ranks), "charges": False, **how, **case.how}
        )

    def verdict_of(self, times: Sequence[float]) -> Verdict:
        """Judge simulated times, one for each number of ranks."""
        from labkit.scaling import judge

        rows = ", ".join(f"{p}: {quantity(t, 's')}" for p, t in zip(self.ranks, times, strict=True))
        table = f"\nsimulated times by ranks: {rows}"
        if min(times) <= 0:
            return Verdict(0.0, f"No simulated time passes: nothing is sent.{table}", self.hint)
        found = judge(list(self.ranks), list(times), self.expectation)
        ratio, allowed = times[-1] / times[0], self.slack * self._expected_ratio()
        change = (
            f"From {self.ranks[0]} to {self.ranks[-1]} ranks the time {_changes(ratio)}; "
            f"O({self.expectation}), with a slack of {self.slack:g}, allows at most {allowed:.3g} times"
        )
        if ratio > allowed:
            how = "The order of growth alone would do, the size does not. " if found.ok else ""
            return Verdict(0.0, f"{change}. {how}{found.reading}{table}", self.hint)
        if found.match == "bound":
            return Verdict(1.0, f"{found.reading} That is as good as asked for, or better.{table}")
        if found.ok:
            return Verdict(1.0, f"{found.reading}{table}")
        if found.match == "undecided" or (
            found.model is not None and found.model.is_nearest
        ):  # the ratio decides
            return Verdict(1.0, f"{change}: that is enough here. {found.reading}{table}")
        return Verdict(0.0, f"{found.reading}{table}", self.hint)

    def _expected_ratio(self) -> float:
        """Return by how much the expectation changes from the first to the last number of ranks."""
        from labkit.scaling import read_expectation

        term = read_expectation(self.expectation).term
        values = [float(term(float(p))) for p in (self.ranks[0], self.ranks[-1])]
        return values[1] / values[0]


def _drawn_anew(seed: int) -> Iterator[Seed]:
    """Yield a seed and others that follow from it: an algorithm that draws samples may be unlucky once."""
    first = Seed.of(seed)
    yield first
    for nth in range(1, _DRAWS):
        yield Seed(first.number("drawn anew", nth), first.draw)


def _changes(ratio: float) -> str:
    """Return how a time changes from one end to the other, as a clause that follows "the time"."""
    if abs(ratio - 1) < 0.005:
        return "stays the same"
    return f"{'grows' if ratio > 1 else 'falls'} to {ratio:.3g} times its value"
