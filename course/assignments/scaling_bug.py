"""Assignment: a program with a scaling bug, which is to be found, explained by numbers, and repaired."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.errors import LabkitError
from labkit.grading.assignment import Assignment
from labkit.grading.checks import Bound, Correct, Costs, Scaling
from labkit.grading.counts import packed_bytes
from labkit.grading.seeds import Seed
from labkit.grading.trial import Case, shown, wrong_integers

__all__ = ["ASSIGNMENT"]

_STATEMENT = """\
places(comm, keys, buckets) gives each key its place in the sorted sequence of the keys of all ranks:
the number of smaller keys anywhere, and of equal ones on ranks before and before it on its own. keys is
a NumPy array of integers from 0 to buckets - 1, of any length, also 0. The program that you are given
is right, but one of its phases does not scale. (1) Repair it: a rank receives no more than 2 ceil(log2
p) + 2 tables of 8 bytes a bucket and 200 more, nor, packed, than 1.6 times as many packed tables and 200
more; the time grows with log p, and no chain of messages, each sent after the one before was received, is
longer than 8 ceil(log2 p) + 4. (2) Write explain(ranks, buckets), about the program as it was given: it
returns the name of the phase at fault, how the bytes that a rank receives in it grow with the ranks ("1",
"log p", "p", "p log p", "p^2", ...), and how many bytes of data each rank receives in it with these ranks
and buckets. Numbers of ranks, keys and buckets are drawn anew for every grading, ranks from 1 to 64."""

#: the phase at fault in the program as it is given, and how its bytes grow
_PHASE, _GROWTH = "before", "p"
#: of the links of the machine on which the growth is measured
_BYTES_PER_S = 100e6
#: the longest chain of messages on fewer ranks is at most so many times that on more
_MOST_DECREASE = 1.25


def _case(seed: int, ranks: int, n_local: int, buckets: int, words: str = "", hot: int = 0) -> Case:
    source = Seed.of(seed)
    own = []
    for rank in range(ranks):
        n = 0 if words and rank % 2 else n_local
        keys = source.array(n, "uint32", ranks, rank, n_local, buckets, words) % buckets
        keys[:hot] = source.number("hot", ranks, rank) % buckets
        own.append(keys.astype(np.int64))
    total = sum(len(keys) for keys in own)
    said = f"{total} keys, {buckets} bucket{'s' if buckets != 1 else ''}{words}"
    return Case(ranks, [(keys, buckets) for keys in own], said, own if total <= 40 else None, _needs)


def _full(seed: int, ranks: int, n_local: int, buckets: int) -> Case:
    """Return a case with many keys in each bucket, how many nobody can guess: tables hardly get smaller."""
    source, own, label = Seed.of(seed), [], (ranks, n_local, buckets)
    for rank in range(ranks):
        weights, keys = (source.array(n, "uint32", "full", rank, n, *label) for n in (buckets, n_local))
        edges = np.cumsum(-np.log((weights + 1.0) / 2**32))
        own.append(np.minimum(np.searchsorted(edges, keys * (edges[-1] / 2**32)), buckets - 1))
    words = f"{ranks * n_local} keys, {buckets} buckets"
    return Case(ranks, [(keys, buckets) for keys in own], words, None, _needs)


def _needs(case: Case, results: list[Any]) -> list[int]:
    """At least a byte for each different key that is not the only one there is: how many are before it."""
    return [
        len(np.unique(own[0])) if case.ranks > 1 and case.arguments[0][1] > 1 else 0 for own in case.arguments
    ]


def _oracle(case: Case, results: list[Any]) -> str | None:
    blocks = [own[0] for own in case.arguments]
    order = np.argsort(np.concatenate(blocks), kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    ends = np.cumsum([len(block) for block in blocks])
    return wrong_integers(np.split(places, ends[:-1]), results, "places", "key")


def _right(seed: int) -> Iterator[Case]:
    for ranks in (2, 3, 4, 8):
        yield _case(seed, ranks, 5, 4)


def _any_number(seed: int) -> Iterator[Case]:
    yield _case(seed, 1, 6, 3)
    yield _case(seed, 5, 4, 1)
    yield _case(seed, 6, 5, 7, ", none on every other rank")
    for ranks in (*Seed.of(seed).ranks(5, 32, 6, "any"), *Seed.of(seed).ranks(33, 64, 1, "many")):
        yield _case(seed, ranks, 40, 16)


def _growth_case(ranks: int, seed: int) -> Case:
    """Return a case whose buckets and keys a rank are drawn, and the same for all numbers of ranks.

    Some hundred of a rank's keys are in one bucket: a table of bytes does not hold that.
    """
    source = Seed.of(seed)
    hot, buckets = source.drawn(260, 400, "hot"), source.drawn(800, 1400, "buckets")
    return _case(seed, ranks, hot + source.drawn(10, 100, "keys"), buckets, hot=hot)


#: of a rank's keys where numbers of ranks and buckets are drawn as well, at most
_MOST_KEYS = 12_000


def _cost_cases(seed: int) -> Iterator[Case]:
    """Yield cases of few and many keys and ranks, each after one of as many keys a rank on few ranks.

    From so many keys on that all of them are more than the tables allowed no number of keys, ranks or buckets
    is left out. The cases that results are judged on follow: every run counts.
    """
    source = Seed.of(seed)
    many, tables = source.ranks(13, 64, 3, "volume"), source.strata(160, 512, 3, "buckets")
    least = [
        int(1.5 * 1.6 * _tables(ranks) * (2.5 * buckets + 200) / ranks)
        for ranks, buckets in zip(many, tables, strict=True)
    ]
    keys = source.strata(min(least), _MOST_KEYS, 3, "keys")
    order = source.ordered(keys, lambda order: all(map(operator.ge, order, least)), "keys")
    for nth, (ranks, buckets, n_local) in enumerate(zip(many, tables, map(max, order, least), strict=True)):
        for size in (source.drawn(5, 7, "few", nth), ranks):
            yield _full(seed, size, n_local, buckets)
    # of many keys and buckets on many ranks: there tables of all ranks are more than those allowed, if packed
    for nth, n_local in enumerate(source.strata(_MOST_KEYS, 44_000, 3, "many keys")):
        buckets = source.drawn(470, 560, "buckets", nth)
        for size in (source.drawn(5, 7, "few", nth), source.drawn(58, 64, "many", nth)):
            yield _full(seed, size, n_local, buckets)
    sizes = source.strata(160, 512, 6, "few keys")
    for nth, ranks in enumerate(source.ranks(12, 64, 6, "few keys")):
        yield _case(seed, ranks, source.drawn(20, 60, "few keys", nth), sizes[nth])


def _size(case: Case) -> object:
    keys, buckets = case.arguments[0]
    return len(keys), buckets


def _tables(ranks: int) -> int:
    """Two collectives of a logarithmic number of rounds, a table in each, and two more."""
    return 2 * math.ceil(math.log2(ranks)) + 2


def _few_packed(case: Case) -> float:
    """As many tables of all keys, packed, and some more: objects have bytes that do not get less by packing.

    The tables of all others are more, however a program packs them: each holds nearly as much as the sum.
    """
    counts = sum(np.bincount(own[0], minlength=own[1]) for own in case.arguments)
    return 1.6 * _tables(case.ranks) * (packed_bytes(np.asarray(counts, np.int64)) + 200)


def _few_tables(case: Case) -> float:
    """A table in each round, and room for objects' headers: from 13 ranks on those of all others are more."""
    return float(_tables(case.ranks) * (8 * case.arguments[0][1] + 200))


def _seconds(case: Case) -> float:
    """Return the time of three times these bytes, one after another: a chain of p tables takes more.

    Growth alone is to be had for messages that nobody needs, sent on few ranks: they make the chain's time
    there what it should be.
    """
    return 3 * _few_tables(case) / _BYTES_PER_S


def _chain(case: Case) -> float:
    """Return the messages behind each other in four collectives, each of them there and back.

    On 64 ranks a chain through all of them is longer, however few bytes its tables have there: growth of the
    time alone is to be had for tables of more bytes on fewer ranks.
    """
    return float(8 * math.ceil(math.log2(case.ranks)) + 4)


_TOLD = Bound("told", _few_packed, "1.6 (2 ceil(log2 p) + 2) packed tables of all keys and 200 bytes")
_RECEIVED = Bound("received", _few_tables, "(2 ceil(log2 p) + 2) (8 buckets + 200) bytes")


def _asked(seed: int) -> Iterator[Case]:
    for nth, ranks in enumerate(Seed.of(seed).ranks(2, 4096, 3, "explain")):
        buckets = 2 + Seed.of(seed).number("buckets", nth, Seed.of(seed).draw) % 4000
        how = f"explain({ranks}, {buckets})"
        yield Case(1, [(ranks, buckets)], how, is_plain=True)


def _explained(case: Case, results: list[Any]) -> str | None:
    found, (ranks, buckets) = results[0], case.arguments[0]
    if not isinstance(found, tuple | list) or len(found) != 3:
        return f"it returned {shown(found)}, not (phase, growth, bytes)"
    phase, growth, n_bytes = found
    if not isinstance(phase, str) or phase != _PHASE:
        return (
            f"it returned {shown(phase)} as the phase at fault: measure the bytes of each phase at several p"
        )
    if not _is_growth(growth):
        said = f"it returned that the bytes of {_PHASE!r} grow with {shown(growth)}"
        return f"{said}: measure them at several p, and fit"
    if isinstance(n_bytes, bool) or not isinstance(n_bytes, int | float | np.number) or n_bytes != n_bytes:
        return f"it returned {shown(n_bytes)} as the number of bytes"
    if n_bytes != _bytes_received(ranks, buckets):
        said = f"it returned that each of {ranks} ranks receives {shown(n_bytes)} bytes in {_PHASE!r}"
        return f"{said}, but the program as it was given sends a rank another number of bytes"
    return None


def _bytes_received(ranks: int, buckets: int) -> int:
    """What a rank receives in the phase at fault: the tables of all others, 8 bytes a bucket."""
    return (ranks - 1) * buckets * 8


def _is_growth(growth: Any) -> bool:
    from labkit.scaling import read_expectation

    try:
        return isinstance(growth, str) and len(growth) < 40 and (
            read_expectation(growth).term == read_expectation(_GROWTH).term
        )  # fmt: skip
    except LabkitError:
        return False


ASSIGNMENT = Assignment(
    name="scaling_bug",
    title="Find, explain and repair a scaling bug",
    function="places",
    also=("explain",),
    statement=_STATEMENT,
    checks=(
        Correct("right", "Right on 2, 3, 4 and 8 ranks", 2, _right, _oracle,
                "What does a rank know of the ranks before it? The first one has none before it."),
        Correct("any_number", "Any number of ranks, keys and buckets", 2, _any_number, _oracle,
                "What is in the buffer of rank 0 after an exclusive prefix sum?"),
        Costs("volume", "A rank receives O(buckets log p) bytes", 2, _cost_cases, _oracle, [_RECEIVED, _TOLD],
              "A rank needs the sum of the tables before it, not the tables. A list of NumPy's numbers has "
              "19 bytes a number: send the array.", most_growth=4.0, size=_size),
        Scaling("scaling", "The time grows with log p", 2, _growth_case, _oracle, "log p",
                on="star:{},bw=100MBps,lat=1us,model=raw".format, slack=2.0,
                bounds=[_RECEIVED, Bound("seconds", _seconds, "the time of three times as many bytes"),
                        Bound("chain", _chain, "8 ceil(log2 p) + 4")], drawn=(13, 63, 6),
                most_decrease=_MOST_DECREASE,
                hint="Which phase takes most of the time on many ranks? Judge each phase on its own."),
        Correct("explained", "The bug is explained by numbers", 3, _asked, _explained,
                "Run the given program with trace=True at several p: which bytes come in which phase?",
                function="explain"),
    ),
)  # fmt: skip
