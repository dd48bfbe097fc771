"""Assignment: a parallel sort that spreads keys and work over the ranks."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.algorithms.sort_checker import SortReport, check_sorted
from labkit.datasets import inputs
from labkit.grading.assignment import Assignment
from labkit.grading.checks import Bound, Correct, Costs, Scaling
from labkit.grading.result import Verdict
from labkit.grading.seeds import Seed
from labkit.grading.trial import Case, Trial, headline, shown, type_and_shape

__all__ = ["ASSIGNMENT"]

_STATEMENT = """\
Write parallel_sort(comm, keys): every rank gives a one-dimensional NumPy array of keys (of any length,
also 0, of one dtype) and returns its block of the sorted sequence: each block sorted, and no key of
rank r above one of rank r + 1. NaNs come last. No rank may receive much more than its share: the
largest block is at most twice the mean block on uniform keys, and a rank receives O(n/p) keys: packed,
the bytes of 3 n/p keys and 1 kB for each rank at most.
Numbers of ranks are drawn anew for every grading, from 1 to 64."""


def _case(
    name: str, ranks: int, n_local: int, seed: int, dtype: str = "int64", lengths: str = "even"
) -> Case:
    source, label = Seed.of(seed), (name, ranks, n_local, dtype, lengths)

    def bits(nth: int) -> Any:
        return source.stream(*label, nth)

    how: dict[str, Any] = {"dtype": dtype, "seed": source.number(*label), "lengths": lengths, "bits": bits}
    own = [inputs.keys(name, r, ranks, n_local, **how) for r in range(ranks)]
    total = sum(len(keys) for keys in own)
    words = f"{name.replace('_', ' ')} keys, {dtype}, {total} in all" + (
        "" if lengths == "even" else f", {lengths.replace('_', ' ')}"
    )
    return Case(ranks, [(keys,) for keys in own], words, own if total <= 40 else None, _needs)


def _needs(case: Case, results: list[Any]) -> list[int]:
    """Return the bytes of the different keys that each rank returns and was not given; NaN has many forms."""
    found = []
    for (own,), result in zip(case.arguments, results, strict=True):
        mine, sorted_ = np.sort(own[own == own]), result[result == result]
        different = sorted_[np.append(True, sorted_[1:] != sorted_[:-1])[: len(sorted_)]]
        at = np.searchsorted(mine, different)
        known = np.count_nonzero(mine.take(at, mode="clip") == different) if len(mine) else 0
        found.append((len(different) - int(known)) * result.itemsize)
    return found


def _given(ranks: int, blocks: list[Any], words: str) -> Case:
    return Case(ranks, [(block,) for block in blocks], words, blocks, _needs)


def _easy(seed: int) -> Iterator[Case]:
    yield _given(2, [np.array([3, 1]), np.array([2, 0])], "4 keys")
    for ranks in (2, 4, 8):
        yield _case("uniform", ranks, 200, seed)


def _any_number(seed: int) -> Iterator[Case]:
    yield _case("uniform", 1, 5, seed)
    for ranks in (3, *Seed.of(seed).ranks(4, 14, 2, "any")):
        yield _case("gaussian", ranks, 40, seed)
    for ranks in Seed.of(seed).ranks(33, 64, 1, "many"):
        yield _case("uniform", ranks, 30, seed)


def _lengths(seed: int) -> Iterator[Case]:
    yield _given(1, [np.array([], np.int64)], "no keys at all")
    yield _given(3, [np.array([], np.int64)] * 3, "no keys at all")
    yield _given(2, [np.array([], np.int64), np.array([2, 1])], "one rank without keys")
    yield _given(5, [np.array([7 - r]) if r % 2 else np.array([], np.int64) for r in range(5)], "2 keys")
    for lengths in ("fewer", "odd_empty", "one_rank", "powers", "ragged"):
        yield _case("uniform", 7, 20, seed, lengths=lengths)


def _duplicates(seed: int) -> Iterator[Case]:
    yield _given(3, [np.array([1, 1]), np.array([1, 1]), np.array([1, 1])], "all keys equal")
    for name in ("all_equal", "few_unique", "random_duplicates", "deterministic_duplicates", "zipf"):
        yield _case(name, 5, 60, seed)
    yield _case("all_equal", 16, 20, seed)


def _adversaries(seed: int) -> Iterator[Case]:
    for name in ("sorted", "reversed", "staggered", "bucket", "g_group", "all_to_one", "mirrored"):
        yield _case(name, 8, 40, seed)
    yield _case("worst_regular", 8, 64, seed)


def _extremes(seed: int) -> Iterator[Case]:
    limits = np.iinfo(np.int64)
    yield _given(
        2, [np.array([limits.max, 0]), np.array([limits.min, -1])], "the largest and smallest integers"
    )
    yield _given(
        3,
        [np.array([np.nan, 1.0]), np.array([-np.inf, np.nan]), np.array([np.inf, -0.0])],
        "NaN and infinity",
    )
    yield _case("bit_patterns", 5, 40, seed, "float64")
    yield _case("bit_patterns", 4, 40, seed, "uint64")
    yield _case("bit_patterns", 3, 40, seed, "int8")
    yield _case("uniform", 7, 40, seed, "float32")


def _is_exact(case: Case, results: list[Any]) -> bool:
    """Whether the blocks, one after the other, are to the bit what NumPy makes of all keys.

    Others may be right as well: NaN has many forms, and zeros of both signs are equal.
    """
    given = [own[0] for own in case.arguments]
    if any(one.ndim != 1 or one.dtype != given[0].dtype for one in results):
        return False
    return np.concatenate(results).tobytes() == np.sort(np.concatenate(given)).tobytes()


def _report(case: Case, results: list[Any]) -> SortReport:
    """Check with the sound checker, on as many simulated ranks."""
    from labkit.launch.run import run

    given = [own[0] for own in case.arguments]
    found = [np.asarray(result) for result in results]
    done = run(lambda comm: check_sorted(comm, given[comm.rank], found[comm.rank]), case.ranks,
               on=f"star:{case.ranks}", isolate=False)  # fmt: skip
    report: SortReport = done.results[0]
    return report


def _oracle(case: Case, results: list[Any]) -> str | None:
    for rank, result in enumerate(results):
        if not isinstance(result, np.ndarray):
            return f"rank {rank} returned {type_and_shape(result)}, expected an array of keys"
    if _is_exact(case, results) or (report := _report(case, results)).is_sorted:
        return None
    blocks = ""
    if sum(len(r) for r in results if r.ndim == 1) <= 40 and case.ranks <= 8:
        blocks = "".join(f"\n  rank {rank} returned {shown(result)}" for rank, result in enumerate(results))
    return f"{_first(report)}{blocks}"


def _first(report: SortReport) -> str:
    """Return the first thing that is wrong; its keys, which differ from case to case, on a line below."""
    first, *others = report.findings
    what, _, keys = first.reason.partition(": ")
    where = "" if first.rank is None else f"rank {first.rank}: "
    more = f"{len(others)} more finding{'s' * (len(others) > 1)}" if others else ""
    details = "; ".join(one for one in (keys, more) if one)
    return f"not a correct sort: {where}{what}" + (f"\n  {details}" if details else "")


@dataclass(frozen=True)
class Balanced:
    """The largest block is at most a factor above the mean block."""

    name: str
    title: str
    points: float
    inputs: tuple[str, ...]
    factor: float = 2.0
    hint: str = ""
    is_bonus: bool = False
    needs_simulation = False

    def judge(self, trial: Trial) -> Verdict:
        """Look at the blocks' sizes."""
        worst = 0.0
        for name in self.inputs:
            case = _case(name, *_size(Seed.of(trial.seed), name), trial.seed)
            wrong, hint, outcome = trial.fault(case, _oracle, packs=True)  # as volumes are counted: one run
            if wrong:
                why = headline(wrong)
                return Verdict(0.0, f"{case}: balance counts only for a right result: {why}", hint)
            lengths = [len(block) for block in outcome.results]
            imbalance = max(lengths) * len(lengths) / max(sum(lengths), 1)
            if imbalance > self.factor:
                return Verdict(
                    0.0,
                    f"{case}: the largest block holds {max(lengths)} keys, {imbalance:.2f} times the mean; "
                    f"at most {self.factor:g} times is allowed.\nblocks: {shown(lengths)}",
                    self.hint,
                )
            worst = max(worst, imbalance)
        return Verdict(1.0, f"The largest block is at most {worst:.2f} times the mean.")


#: of a rank's keys where volumes are judged, at most
_MOST_KEYS = 24_000
#: types of keys, with how they are distributed
_TYPES = (("int64", "gaussian"), ("float64", "uniform"), ("uint64", "uniform"))


def _volume_cases(seed: int) -> Iterator[Case]:
    """Yield cases of few and many keys and ranks, in pairs that are drawn, and those of balance and growth.

    From so many keys on that all of them are more than what a rank may receive, with its samples, each
    grading has a number of keys from any n to 2 n, each type, and each order.
    """
    source = Seed.of(seed)
    few = source.drawn(8, 10, "few")
    least = max(_least_keys(few), 320)
    yield _case("uniform", few, least + int(source.fraction("keys") * (640 - least)), seed)
    many = source.ranks(8, 64, 6, "volume")
    keys = _keys_for(many, source)
    types = source.shuffled([*_TYPES, *_TYPES[::-1]], "volume")
    for ranks, n_local, (dtype, name) in zip(many, keys, types, strict=True):
        yield _case(name, ranks, n_local, seed, dtype)
    yield _case("reversed", *_size(source, "reversed"), seed)
    for name in ("uniform", "gaussian"):
        yield _case(name, *_size(source, name), seed)


def _least_keys(ranks: int) -> int:
    """Return so many keys a rank that all are more than it may receive, and 8 p samples as tuples less."""
    return max(192 * ranks // (ranks - 3), 5 * ranks * (ranks - 8))


def _keys_for(sizes: Sequence[int], source: Seed) -> Sequence[int]:
    """Return keys a rank for numbers of ranks, one of each part from few to many, in a drawn order."""
    keys = sorted(source.strata(2400, _MOST_KEYS, len(sizes), "keys"))
    least = [_least_keys(ranks) for ranks in sizes]
    order = source.ordered(keys, lambda keys: all(map(operator.ge, keys, least)), "volume keys")
    return list(map(max, order, least))


#: keys of a rank, from few to many: of the inputs that every grading tries, one is of each
_SIZES = ((640, 999), (1000, 1499), (1500, 2400))


def _size(source: Seed, name: str) -> tuple[int, int]:
    """Return a number of ranks and of keys for each, beside which 8 p samples of every rank are few bytes."""
    parts = dict(zip(("reversed", "uniform", "gaussian"), source.shuffled(range(3), "sizes"), strict=True))
    part = parts.get(name, 2)
    least, most = _SIZES[part]
    n_local = least + int(source.fraction("keys") * (most + 1 - least))
    return source.drawn(12, 14, "ranks") + part, n_local


def _growth_case(ranks: int, seed: int) -> Case:
    """Return a case of about as many keys in all for all numbers of ranks."""
    return _case("uniform", ranks, Seed.of(seed).drawn(240_000, 290_000, "growth") // ranks, seed)


def _growth_elsewhere(seed: int) -> Iterator[Case]:
    """Yield a case of each type on numbers of ranks that the growth is not measured on, on its machine."""
    source = Seed.of(seed)
    types = source.shuffled(_TYPES, "growth")
    for nth, ranks in enumerate(source.ranks(9, 15, 3, "growth")):
        (dtype, name), total = types[nth], source.drawn(240_000, 290_000, "growth", nth)
        yield _case(name, ranks, total // ranks, seed, dtype)


def _share(case: Case) -> float:
    """Three times a rank's share of the keys, and 128 samples or counts from every rank."""
    n_bytes: int = sum(own[0].nbytes for own in case.arguments)
    return 3 * n_bytes / case.ranks + 8 * 128 * case.ranks


def _as_objects(case: Case) -> float:
    """Five times as much: so many bytes has a key as a pickled tuple of NumPy's numbers."""
    return 5 * _share(case)


def _seconds(case: Case) -> float:
    """Return the time in which a rank sends and receives twice its share at 1 MB/s, one after the other."""
    return 2 * _share(case) / 1e6


ASSIGNMENT = Assignment(
    name="sort",
    title="A parallel sort",
    function="parallel_sort",
    statement=_STATEMENT,
    checks=(
        Correct("easy", "Sorts random keys on 2, 4 and 8 ranks", 2, _easy, _oracle,
                "Sort locally, choose splitters, send each bucket to its rank, merge."),
        Correct("any_number", "Any number of ranks", 1, _any_number, _oracle,
                "p ranks need p - 1 splitters; on one rank there is none."),
        Correct("lengths", "Ranks with few keys or none", 2, _lengths, _oracle,
                "What are the samples of a rank without keys? Which dtype has an empty array?"),
        Correct("duplicates", "Many equal keys", 1, _duplicates, _oracle,
                "Equal keys may lie on both sides of a splitter, but none may be lost or doubled."),
        Correct("adversaries", "Inputs made against sorters", 1, _adversaries, _oracle),
        Correct("extremes", "Extreme keys and NaN", 1, _extremes, _oracle,
                "NaN is neither below nor above anything: compare with NumPy's sort order."),
        Balanced("balance", "Blocks of nearly equal size", 2, ("uniform", "gaussian", "staggered"),
                 hint="Are the splitters taken from samples of all ranks? Take more samples."),
        Costs("volume", "A rank receives O(n/p) keys", 2, _volume_cases, _oracle,
              [Bound("told", _share, "3 n/p keys and 1 kB per rank"),
               Bound("received", _as_objects, "15 n/p keys and 5 kB per rank")],
              "Keys go straight to their rank; no rank collects all of them."),
        Scaling("scaling", "With more ranks the time falls", 2, _growth_case, _oracle, "1/p",
            ranks=(2, 3, 4, 6, 8, 12, 16), slack=4.0,
            on="star:{},bw=1MBps,lat=1us,model=raw".format,
            bounds=[Bound("received", _share, "3 n/p keys and 1 kB per rank"),
                    Bound("sent", _share, "3 n/p keys and 1 kB per rank"),
                    Bound("seconds", _seconds, "the time of 6 n/p keys and 2 kB per rank")],
            also=_growth_elsewhere,
            hint="Each rank must send and receive n/p keys: does one get more?"),
        Balanced("equal_keys", "Balanced also when all keys are equal", 1, ("all_equal", "few_unique"),
                 hint="Break ties: compare (key, rank, position), not the key alone.", is_bonus=True),
    ),
)  # fmt: skip
