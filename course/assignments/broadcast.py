"""Assignment: a broadcast from messages alone, in a logarithmic number of rounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from labkit.grading.assignment import Assignment
from labkit.grading.checks import Bound, Correct, Costs, Scaling, everybody_has_it
from labkit.grading.seeds import Seed
from labkit.grading.trial import Case

__all__ = ["ASSIGNMENT"]

_STATEMENT = """\
Write broadcast(comm, data, root): rank `root` holds a NumPy array `data`, the others are given None;
every rank returns an array with the same shape, dtype and values. Use messages only (send, recv, isend,
irecv, sendrecv and their upper-case spellings), no collective. Any number of ranks, any root, any
length, also 0. No more than p - 1 messages of the data, beside each at most one short one (its size,
say), and no more than 2 ceil(log2 p) rounds.
Numbers of ranks are drawn anew for every grading, from 1 to 64."""


def _case(ranks: int, root: int, data: Any, words: str) -> Case:
    arguments = [(data if rank == root else None, root) for rank in range(ranks)]
    return Case(
        ranks, arguments, f"root {root}, {words}", [own[0] for own in arguments], needs=_needs, origin=root
    )


def _needs(case: Case, results: list[Any]) -> list[int]:
    """Everybody needs all of it but the root."""
    return [0 if own[0] is not None else results[rank].nbytes for rank, own in enumerate(case.arguments)]


#: lengths and types of the data, drawn anew for every grading: no case tells what it is for
_KINDS = ("float64", "int64", "int32", "uint8", "float32", "uint16")


def _array(seed: int, n: int, dtype: str, *label: object) -> Any:
    return Seed.of(seed).array(n, dtype, *label)


def _drawn_array(seed: int, least: int, most: int, *label: object) -> Any:
    """Return as many bytes as are drawn between two bounds, or a few less, of a type that is drawn."""
    source = Seed.of(seed)
    dtype = np.dtype(source.chosen(_KINDS, "dtype", *label))
    return _array(seed, source.drawn(least, most, "bytes", *label) // dtype.itemsize, dtype.str, *label)


def _drawn(seed: int, ranks: int, root: int | None, *label: object, least: int = 1, most: int = 400) -> Case:
    """Return a case of data, and a root unless it is given, that are drawn anew for every grading."""
    if root is None:
        root = Seed.of(seed).drawn(0, ranks - 1, "root", ranks, *label)
    data = _drawn_array(seed, least, most, ranks, root, *label)
    return _case(ranks, root, data, f"{len(data)} numbers, {data.dtype}")


def _powers_of_two(seed: int) -> Iterator[Case]:
    for ranks in (2, 4, 8):
        yield _drawn(seed, ranks, 0, "powers", most=60)


def _any_number(seed: int) -> Iterator[Case]:
    source, count = Seed.of(seed), len(_KINDS)
    for ranks in (1, 3, *source.ranks(4, 9, 1, "any"), *source.ranks(33, 64, 1, "many")):
        yield _drawn(seed, ranks, 0, "any", most=60)
    sizes, kinds = source.strata(8, 63, count, "bytes"), source.shuffled(_KINDS, "any")
    for nth, ranks in enumerate(source.ranks(10, 32, count, "any")):
        data = _array(seed, sizes[nth] // np.dtype(kinds[nth]).itemsize, kinds[nth], "any", nth)
        yield _case(ranks, 0, data, f"{len(data)} numbers, {data.dtype}")


def _any_root(seed: int) -> Iterator[Case]:
    for ranks in (2, 3, *Seed.of(seed).ranks(4, 24, 2, "root")):
        drawn = Seed.of(seed).drawn(1, ranks - 1, "root", ranks)
        for root in sorted({1, drawn, ranks - 1}):
            yield _drawn(seed, ranks, root, most=60)


def _any_data(seed: int) -> Iterator[Case]:
    def root(ranks: int, *label: object) -> int:
        return Seed.of(seed).drawn(0, ranks - 1, "data", *label)

    yield _case(3, root(3, 0), _array(seed, 0, "float64"), "an empty array")
    special = np.array([np.nan, -np.inf, -0.0, 5e-324, 1.5])
    yield _case(3, root(3, 1), special, "NaN, infinity, -0.0 and a subnormal")
    yield _case(4, root(4), _array(seed, 12, "uint8").reshape(3, 4), "a matrix of bytes")
    n = Seed.of(seed).drawn(9_000, 14_000, "long")
    yield _case(5, 1 + root(4, "long"), _array(seed, n, "float64"), f"{n} floats (rendezvous messages)")
    yield _case(5, root(5, 1), _array(seed, 2, "uint8", "flags") > 127, "2 booleans")


def _cost_cases(seed: int) -> Iterator[Case]:
    """Yield cases of their own, and all that results are judged on: every run counts."""
    for ranks in (2, 3, *Seed.of(seed).ranks(4, 7, 1, "cost")):
        yield _drawn(seed, ranks, None, "cost", most=4000)
    yield from _every_kind(seed)
    for cases in (_powers_of_two, _any_number, _any_root, _any_data):
        yield from (case for case in cases(seed) if case.ranks > 1)


def _every_kind(seed: int) -> Iterator[Case]:
    """Yield a case of each type: of each sixth of the ranks, lengths from 64 bytes on, and roots, too.

    From 10 ranks on a root that sends to all others takes more rounds than are allowed.
    """
    source, count = Seed.of(seed), len(_KINDS)
    sixths, place = source.shuffled(range(count), "every root"), source.fraction("every root")
    sizes = source.strata(64, 4000, count, "bytes")
    kinds = source.ordered(_KINDS, lambda kinds: _has_all_lengths(kinds, sizes), "every")
    for nth, ranks in enumerate(source.ranks(10, 64, count, "every")):
        inner = int(ranks * (sixths[nth] + place) / count)
        root = {0: 0, 1: 1, count - 1: ranks - 1}.get(sixths[nth], inner)
        dtype = np.dtype(kinds[nth])
        data = _array(seed, sizes[nth] // dtype.itemsize, dtype.str, "every", nth)
        yield _case(ranks, root, data, f"{len(data)} numbers, {data.dtype}")


def _has_all_lengths(kinds: Sequence[str], sizes: Sequence[int]) -> bool:
    """Whether no interval from n to 4 n elements is left out, from 16 to 1,600 elements."""
    found = sorted(n // np.dtype(kind).itemsize for kind, n in zip(kinds, sizes, strict=True))
    found = [16, *(n for n in found if 16 < n < 1600), 1600]
    return all(many <= 4 * few for few, many in itertools.pairwise(found))


def _growth_case(ranks: int, seed: int) -> Case:
    """Return a case whose data are the same for all numbers of ranks."""
    data = _drawn_array(seed, 40, 400, "growth")
    root = Seed.of(seed).drawn(0, ranks - 1, "growth", ranks)
    return _case(ranks, root, data, f"{len(data)} numbers, {data.dtype}")


def _data_bytes(case: Case) -> int:
    return int(next(own[0].nbytes for own in case.arguments if own[0] is not None))


#: objects and arrays whose size is told first take a second, short message
_MESSAGES = Bound("messages", lambda case: 2 * (case.ranks - 1), "2 (p - 1)")
#: the data themselves; of fewer bytes than an object's header has nobody can say which message they are in
_OF_DATA = Bound(
    "messages", lambda case: case.ranks - 1, "p - 1", least_bytes=lambda case: max(_data_bytes(case), 256)
)
_BYTES = Bound(
    "bytes", lambda case: (case.ranks - 1) * (_data_bytes(case) + 320), "(p - 1) (the data and 320 bytes)"
)
_ROUNDS = Bound("rounds", lambda case: 2 * _levels(case), "2 ceil(log2 p)")


def _levels(case: Case) -> int:
    return math.ceil(math.log2(case.ranks))


ASSIGNMENT = Assignment(
    name="broadcast",
    title="Broadcast from messages",
    function="broadcast",
    statement=_STATEMENT,
    only_messages=True,
    checks=(
        Correct("powers", "Right for 2, 4 and 8 ranks", 2, _powers_of_two, everybody_has_it,
                "Draw the tree for 4 ranks: who sends to whom in each round?"),
        Correct("any_number", "Right for any number of ranks, 1 included", 2, _any_number, everybody_has_it,
                "Does a rank send to, or wait for, a rank that does not exist?"),
        Correct("any_root", "Right for any root", 2, _any_root, everybody_has_it,
                "Number the ranks from the root on: (rank - root) % size."),
        Correct("any_data", "Right for any data", 1, _any_data, everybody_has_it,
                "What does the receiver know of length and dtype? What if a send waits for its receive?"),
        Costs("messages", "At most p - 1 messages of the data", 1, _cost_cases, everybody_has_it,
              [_OF_DATA, _BYTES, _MESSAGES], "Every rank but the root receives the data once."),
        Costs("rounds", "At most 2 ceil(log2 p) rounds", 2, _cost_cases, everybody_has_it,
              [_ROUNDS], "Whoever has the data can pass it on: they can double in each round."),
        Scaling("scaling", "The time grows with log p", 2, _growth_case, everybody_has_it, "log p",
                bounds=(_BYTES, _ROUNDS), also=_every_kind,
                hint="Does one rank send to all others, one after another? Then the time grows with p."),
        Costs("optimal", "Optimal: ceil(log2 p) rounds", 1, _cost_cases, everybody_has_it,
              [Bound("rounds", _levels, "ceil(log2 p)")],
              "A binomial tree: in each round every rank that has the data sends it to one that has not.",
              is_bonus=True),
    ),
)  # fmt: skip
