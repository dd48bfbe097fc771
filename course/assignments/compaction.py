"""Assignment: keep some values of all ranks, in order and in blocks of equal length, by a scan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from labkit.grading.assignment import Assignment
from labkit.grading.checks import Bound, Correct, Costs, Scaling
from labkit.grading.seeds import Seed
from labkit.grading.trial import Case, one_instead_of, shown, type_and_shape, wrong_of

__all__ = ["ASSIGNMENT"]

_STATEMENT = """\
Write compact(comm, values, keep): every rank has a one-dimensional NumPy array `values` (of any length,
also 0, of one dtype) and an array `keep` of as many booleans. The kept values of all ranks, in the order of
ranks and positions, are distributed again: with k kept values in all, every rank returns an array of
floor(k/p) or ceil(k/p) of them, rank 0 the first ones, and so on. A rank receives no more bytes than 1.1
times its block and 300 for each rank, and sends no more than 1.1 times its kept values and 300 for each
rank. With about as many kept values on each rank, the time grows with log p, and no chain of messages,
each sent after the one before was received, is longer than 4 ceil(log2 p) + 6: all-to-all exchanges are.
Numbers of ranks, lengths and types are drawn anew for every grading, ranks from 1 to 64."""

#: types of the values; their bytes are random, so that no two values are the same but by chance
_KINDS = ("float64", "int64", "uint64", "complex128", "float32", "int32")


def _values(source: Seed, n: int, dtype: str, *label: object) -> Any:
    """Return n values whose bits are random: also NaNs of all kinds, which must be kept as they are."""
    return source.array(n * np.dtype(dtype).itemsize, "uint8", *label).view(dtype)


def _case(
    seed: int, lengths: Sequence[int], shares: Sequence[float], words: str, dtype: str = "int64", **how: Any
) -> Case:
    """Return a case with so many values on each rank, of which about a share is kept."""
    source, label = Seed.of(seed), (words, len(lengths), dtype)
    arguments = []
    for rank, (n, share) in enumerate(zip(lengths, shares, strict=True)):
        if sum(lengths) <= 40 and dtype == "int64":  # to be read
            values = source.array(n, "uint8", "values", rank, n, *label).astype(np.int64)
        else:
            values = _values(source, n, dtype, "values", rank, n, *label)
        arguments.append((values, source.array(n, "float64", "keep", rank, n, *label) < share))
    kept = sum(int(keep.sum()) for _, keep in arguments)
    said = f"{sum(lengths)} values, {dtype}, {kept} kept{words}"
    inputs = arguments if sum(lengths) <= 40 else None
    return Case(len(lengths), arguments, said, inputs, _needs, how=how)


def _needs(case: Case, results: list[Any]) -> list[int]:
    """At least a byte for each value of a rank's block that was not its own."""
    own = np.cumsum([0, *(int(keep.sum()) for _, keep in case.arguments)])
    block = np.cumsum([0, *map(len, results)])
    shared = np.minimum(own[1:], block[1:]) - np.maximum(own[:-1], block[:-1])
    return [int(n) for n in np.diff(block) - np.maximum(shared, 0)]


def _in_order(case: Case, results: list[Any]) -> str | None:
    """Say what is wrong with the kept values, one rank's after the other's."""
    dtype = case.arguments[0][0].dtype
    for rank, found in enumerate(results):
        if not isinstance(found, np.ndarray) or found.ndim != 1:
            return f"rank {rank} returned {type_and_shape(found)}, expected a one-dimensional array"
        if found.dtype != dtype:
            return f"rank {rank} returned {found.dtype}, expected {dtype}"
    wanted = np.concatenate([values[keep] for values, keep in case.arguments])
    found = np.concatenate(results)
    if len(found) != len(wanted):
        return f"the ranks returned {len(found)} values in all, {len(wanted)} are kept"
    bits = (len(wanted), dtype.itemsize)  # NaN is not equal to itself
    wrong = np.flatnonzero((found.view(np.uint8).reshape(bits) != wanted.view(np.uint8).reshape(bits)).any(1))
    if len(wrong):
        at = int(wrong[0])
        rank = int(np.searchsorted(np.cumsum([len(one) for one in results]), at, "right"))
        got, right = one_instead_of(found[at], wanted[at])
        count = wrong_of(len(wrong), len(wanted))
        return f"value {at} of the result, on rank {rank}, is {got}, expected {right}: {count}"
    return None


def _balanced(case: Case, results: list[Any]) -> str | None:
    """Say what is wrong with the values, or with the blocks' lengths."""
    wrong = _in_order(case, results)
    if wrong:
        return wrong
    lengths = [len(found) for found in results]
    least, most = sum(lengths) // case.ranks, -(-sum(lengths) // case.ranks)
    for rank, n in enumerate(lengths):
        if not least <= n <= most:
            allowed = f"{least}" if least == most else f"{least} or {most}"
            return f"rank {rank} returned {n} values, expected {allowed}; blocks' lengths: {shown(lengths)}"
    return None


def _right(seed: int) -> Iterator[Case]:
    for ranks in (2, 3, 4, 8):
        yield _case(seed, [4] * ranks, [0.6] * ranks, "")


def _any_number(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    yield _case(seed, [6], [0.5], "")
    for ranks in (5, *source.ranks(6, 32, 4, "any"), *source.ranks(33, 64, 1, "many")):
        n = source.drawn(5, 20, "any", ranks)
        yield _case(seed, [n] * ranks, [source.drawn(2, 8, "share", ranks) / 10] * ranks, "")


def _lengths(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    yield _case(seed, [0, 0, 0], [0.5] * 3, ", no values")
    yield _case(seed, [4, 3, 5], [0.0] * 3, ", nothing kept")
    yield _case(seed, [0, 5, 0, 4], [0.5] * 4, ", every other rank without values")
    for nth, ranks in enumerate(source.ranks(5, 12, 3, "lengths")):
        lengths = [source.drawn(0, 30, "lengths", nth, rank) for rank in range(ranks)]
        yield _case(seed, lengths, [1.0] * ranks, ", all kept")
        yield _case(seed, lengths, [source.chosen((0, 0.3, 1), "share", nth, r) for r in range(ranks)], "")
        one = source.drawn(0, ranks - 1, "one", nth)
        yield _case(
            seed, lengths, [float(rank == one) for rank in range(ranks)], f", only those of rank {one}"
        )
    few = source.drawn(3, 6, "few")
    yield _case(seed, [0] * few + [2] + [0] * few, [1.0] * (2 * few + 1), ", fewer than ranks")


def _any_type(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    special = np.array([0x7FF8 << 48, (0x7FF8 << 48) + 5, 1 << 63, 0xFFF0 << 48, 1], np.uint64).view(float)
    given = [(special, np.full(5, rank != 1)) for rank in range(3)]
    yield Case(3, given, "two NaNs, -0.0, -infinity and a subnormal, 10 kept", given, _needs)
    for nth, dtype in enumerate(source.shuffled((*_KINDS, "uint8", "int16"), "types")):
        ranks = source.drawn(3, 7, "types", nth)
        yield _case(seed, [source.drawn(10, 40, "n", nth)] * ranks, [0.5] * ranks, "", dtype)


def _skewed(seed: int) -> Iterator[Case]:
    """Yield cases in which few ranks have what is kept: the first, the last, one in the middle, ever more."""
    source = Seed.of(seed)
    sizes = source.ranks(4, 32, 4, "skewed")
    for nth, ranks in enumerate(sizes):
        n, one = source.drawn(30, 90, "skewed", nth), (0, ranks - 1, ranks // 2, ranks)[nth]
        shares = [float(rank == one) if one < ranks else rank / ranks for rank in range(ranks)]
        yield _case(seed, [n] * ranks, shares, f", mostly of rank {one}" if one < ranks else ", ever more")


def _volume_cases(seed: int) -> Iterator[Case]:
    """Yield cases with many values, of each type, of which few are kept, on all ranks or on few.

    So many are not kept that flags of all of them, a bit each, are more than what a rank may receive.
    """
    source = Seed.of(seed)
    ranks = source.ranks(12, 64, len(_KINDS), "volume")
    lengths = source.strata(9_000, 13_500, len(_KINDS), "volume")
    kinds = source.shuffled(_KINDS, "volume")
    places = source.shuffled(range(len(_KINDS)), "places")
    for nth, (p, n, dtype) in enumerate(zip(ranks, lengths, kinds, strict=True)):
        share = (1.5 + source.fraction("share", nth)) / np.dtype(dtype).itemsize
        shares = np.full(p, share)
        if places[nth] == 0:  # an eighth of the ranks has all
            shares = np.where(np.arange(p) % 8 == source.drawn(0, 7, "eighth"), 1.0, 0.0)
        elif places[nth] == 1:  # most of them travel: who sends them twice sends more than is allowed
            shares = np.minimum(4 * share * np.arange(p) / p, 1.0)
        yield _case(seed, [n] * p, shares.tolist(), "", dtype)


def _growth_case(ranks: int, seed: int) -> Case:
    """Return a case with about as many kept values on all ranks, on a fast network."""
    source = Seed.of(seed)
    n, dtype = source.drawn(90, 240, "growth"), source.chosen(_KINDS, "growth")
    return _case(seed, [n] * ranks, [0.5] * ranks, " of all ranks alike", dtype)


def _elsewhere(seed: int) -> Iterator[Case]:
    """Yield cases of each type, with other numbers of ranks and values, that the bounds hold for as well."""
    source = Seed.of(seed)
    kinds, lengths = source.shuffled(_KINDS, "else"), source.strata(40, 2_000, len(_KINDS), "else")
    for ranks, n, dtype in zip(source.ranks(24, 64, len(_KINDS), "else"), lengths, kinds, strict=True):
        share = source.drawn(3, 8, "else", ranks) / 10
        yield _case(seed, [n] * ranks, [share] * ranks, " of all ranks alike", dtype)


def _itemsize(case: Case) -> int:
    return int(case.arguments[0][0].dtype.itemsize)


def _received(case: Case) -> float:
    """Return the bytes of a block, a tenth more, and room for objects' headers and counts of all ranks."""
    kept = sum(int(keep.sum()) for _, keep in case.arguments)
    return 1.1 * -(-kept // case.ranks) * _itemsize(case) + 300 * case.ranks


def _sent(case: Case) -> float:
    return 1.1 * max(int(keep.sum()) for _, keep in case.arguments) * _itemsize(case) + 300 * case.ranks


def _chain(case: Case) -> float:
    """Return the messages behind each other in two collectives, each of two messages, and some more."""
    return float(4 * math.ceil(math.log2(case.ranks)) + 6)


_RECEIVED = Bound("received", _received, "1.1 blocks and 300 p bytes")
_TOLD = Bound("told", _received, "1.1 blocks and 300 p bytes")
_SENT = Bound("sent", _sent, "1.1 times the kept values of a rank and 300 p bytes")

ASSIGNMENT = Assignment(
    name="compaction",
    title="Prefix compaction",
    function="compact",
    statement=_STATEMENT,
    checks=(
        Correct("right", "Keeps the right values in order on 2, 3, 4 and 8 ranks", 1, _right, _in_order,
                "Which place in the result has the first value that a rank keeps?"),
        Correct("any_number", "Any number of ranks", 1, _any_number, _in_order,
                "What does an exclusive scan give rank 0?"),
        Correct("lengths", "Ranks with few values or none, or all of them", 1, _lengths, _in_order,
                "Which dtype has the empty array that a rank returns? Does a rank that keeps nothing take "
                "part?"),
        Correct("any_type", "Values of any type, bit by bit", 1, _any_type, _in_order,
                "A buffer for what is received has the dtype of `values`."),
        Correct("balance", "Every rank returns floor(k/p) or ceil(k/p) values", 3, _skewed, _balanced,
                "The place of a value in the result determines the rank that returns it; k is the sum of "
                "all counts."),
        Costs("volume", "A rank receives its block and not much more", 2, _volume_cases, _balanced,
              [_RECEIVED, _TOLD, _SENT],
              "Each kept value goes straight to the rank that returns it; what is not kept stays, and flags "
              "do not travel."),
        Scaling("scaling", "The time grows with log p", 3, _growth_case, _balanced, "log p",
                on="star:{},bw=1GBps,lat=20us,model=raw".format, slack=2.0,
                bounds=[Bound("chain", _chain, "4 ceil(log2 p) + 6"), _RECEIVED, _SENT],
                drawn=(20, 63, 6), also=_elsewhere, most_decrease=1.5,
                hint="How many ranks does a rank have values for? An all-to-all exchange also sends to the "
                "others. A rank knows how long its block is, so it can receive from anybody until it has it. "
                "A collective of objects takes two messages a step, one with the size."),
    ),
)  # fmt: skip
