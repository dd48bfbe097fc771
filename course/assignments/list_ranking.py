"""Assignment: list ranking by pointer jumping."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.grading.assignment import Assignment
from labkit.grading.checks import Bound, Correct, Costs
from labkit.grading.seeds import Seed
from labkit.grading.trial import Case, wrong_integers

__all__ = ["ASSIGNMENT"]

_STATEMENT = """\
Write rank_list(comm, n, successors). There are n elements in one linked list or several; rank r owns the
elements from r n // p to (r + 1) n // p, and `successors` is an integer array with the successor of each of
them; the last element of a list is its own successor. Every rank returns an integer array with the number of
links from each of its elements to the end of its list. No chain of messages, each sent after the one before
was received, is longer than (ceil(log2 n) + 2) (4 p + 4 ceil(log2 p)): a program that follows one link after
another has longer ones. With J = ceil(log2(1 + the links of the longest list)) + 1, a rank receives no more
than 40 J ceil(n/p) + 400 p (J + 3) bytes, nor, packed, than 8 J ceil(n/p) + 500 p (J + 3): where lists are
short, all successors are more. Lists and numbers of ranks are drawn anew for every grading, ranks from 1 to
64."""

Elements = NDArray[np.int64]


def _permutation(source: Seed, n: int, *label: object) -> Any:
    return source.array(n, "uint64", "permutation", *label).argsort()


def _lists(order: Elements, lengths: list[int]) -> Elements:
    """Return the successors of lists of these lengths, whose elements follow each other in an order."""
    successors = np.empty(len(order), np.int64)
    successors[order[:-1]] = order[1:]
    last = order[np.cumsum([one for one in lengths if one]) - 1]
    successors[last] = last
    return successors


def _case(ranks: int, successors: Elements, words: str) -> Case:
    n = len(successors)
    own = [successors[r * n // ranks : (r + 1) * n // ranks].copy() for r in range(ranks)]
    said = f"{n} element{'s' if n != 1 else ''}, {words}"
    return Case(ranks, [(n, part) for part in own], said, own if n <= 30 else None, _needs)


def _whole(case: Case) -> Elements:
    found: Elements = np.concatenate([part for _, part in case.arguments])
    return found


def _links(successors: Elements) -> Any:
    """Return the number of links to the end of each element's list, by a sequential program."""
    return _followed(successors.tobytes())


@lru_cache(maxsize=64)
def _followed(data: bytes) -> Any:
    successors: list[int] = np.frombuffer(data, np.int64).tolist()
    found = [-1] * len(successors)
    for element in range(len(successors)):
        way = []
        while found[element] < 0 and successors[element] != element:
            way.append(element)
            element = successors[element]
        links = max(found[element], 0)
        found[element] = links
        for one in reversed(way):
            links += 1
            found[one] = links
    return np.array(found, np.int64)


def _needs(case: Case, results: list[Any]) -> list[int]:
    """A bit for each own element whose list goes on on another rank."""
    found, n, first = [], len(_whole(case)), 0
    for _, own in case.arguments:
        is_out = (own < first) | (own >= first + len(own))
        at = np.where(is_out, np.arange(len(own)), own - first)
        for _ in range(max(len(own), 1).bit_length()):
            at = at[at]
        count = int(is_out[at].sum())
        found.append(max(count // 8, min(count, 1)) if n else 0)
        first += len(own)
    return found


def _oracle(case: Case, results: list[Any]) -> str | None:
    ends = np.cumsum([len(own) for _, own in case.arguments])
    return wrong_integers(np.split(_links(_whole(case)), ends[:-1]), results, "numbers of links", "element")


def _one(source: Seed, n: int, *label: object) -> Elements:
    """Return one list in any order."""
    return _lists(_permutation(source, n, *label), [n])


def _lengths(source: Seed, n: int, most: int, *label: object) -> list[int]:
    """Return lengths from 1 on, of which one is the largest, for n elements."""
    drawn = (source.array(n, "uint64", "lengths", *label) % np.uint64(most)).astype(int) + 1
    found, left = [], n
    for length in [most, *drawn.tolist()]:
        found.append(min(length, left))
        left -= found[-1]
        if not left:
            break
    return found


def _right(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    yield _case(2, np.array([1, 2, 3, 3]), "in order")
    for ranks in (2, 3, 4, 8):
        yield _case(ranks, _one(source, 12, "right", ranks), "one list")


def _any_number(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    yield _case(1, _one(source, 9, "one"), "one list")
    yield _case(5, _one(source, 3, "few"), "one list")
    # one link a round, or a message to each rank, is right as well: no run may need too many calls
    for nth, ranks in enumerate((*source.ranks(6, 32, 4, "any"), *source.ranks(33, 40, 1, "many"))):
        n = source.drawn(30, 150, "any", nth) if ranks < 16 else source.drawn(9, 16, "any", nth)
        yield _case(ranks, _one(source, n, "any", nth), "one list")


def _kinds(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    sizes = source.strata(14, 120, 6, "kinds")
    ranks = source.shuffled(source.ranks(2, 14, 6, "kinds"), "kinds")
    yield _case(3, np.arange(0), "no elements")
    yield _case(3, np.arange(7), "each a list of one")
    yield _case(ranks[0], np.minimum(np.arange(sizes[0]) + 1, sizes[0] - 1), "in order")
    yield _case(ranks[1], np.maximum(np.arange(sizes[1]) - 1, 0), "backwards")
    n = sizes[2]
    yield _case(ranks[2], _lists(_permutation(source, n, "two"), [n // 3, n - n // 3]), "two lists")
    n = sizes[3]
    lengths = _lengths(source, n, 9, "many")
    yield _case(ranks[3], _lists(_permutation(source, n, "many"), lengths), "lists of 1 to 9")
    n = sizes[4]
    yield _case(
        ranks[4], _lists(_permutation(source, n, "long"), [n - 5, 1, 1, 1, 1, 1]), "one long, others of one"
    )
    n, p = sizes[5], ranks[5]
    order = np.argsort(np.arange(n) % p, kind="stable")
    yield _case(p, _lists(order, [n]), "each link from rank to rank")


def _long_cases(seed: int) -> Iterator[Case]:
    """Yield long lists, in which following one link after another takes a chain of many messages."""
    source = Seed.of(seed)
    for nth, ranks in enumerate(source.ranks(4, 24, 3, "long")):
        n = source.drawn(200, 260, "long", nth) * ranks + source.drawn(1, ranks - 1, "rest", nth)
        yield _case(ranks, _one(source, n, "long", nth), "one list")


def _volume_cases(seed: int) -> Iterator[Case]:
    """Yield many short lists: there all successors are more than a rank may receive."""
    source = Seed.of(seed)
    most, shares = source.shuffled((6, 7, 8), "most"), source.strata(9_000, 10_000, 2, "volume")
    for nth, ranks in enumerate(source.ranks(27, 35, 2, "volume")):
        n = shares[nth] * ranks + source.drawn(1, ranks - 1, "over", nth)
        order = _permutation(source, n, "volume", nth)
        yield _case(ranks, _lists(order, _lengths(source, n, most[nth], "volume", nth)), "short lists")


def _cost_cases(seed: int) -> Iterator[Case]:
    yield from _long_cases(seed)
    yield from _volume_cases(seed)


def _jumps(case: Case) -> int:
    return math.ceil(math.log2(1 + int(_links(_whole(case)).max()))) + 1


def _chain(case: Case) -> float:
    rounds = math.ceil(math.log2(case.arguments[0][0])) + 2
    return rounds * (4 * case.ranks + 4 * math.ceil(math.log2(case.ranks)))


def _bytes(case: Case, an_element: int, a_rank: int) -> float:
    share = -(-case.arguments[0][0] // case.ranks)
    return float(an_element * _jumps(case) * share + a_rank * case.ranks * (_jumps(case) + 3))


_BYTES = [
    Bound("told", lambda case: _bytes(case, 8, 500), "8 J ceil(n/p) + 500 p (J + 3) bytes"),
    Bound("received", lambda case: _bytes(case, 40, 400), "40 J ceil(n/p) + 400 p (J + 3) bytes"),
]

ASSIGNMENT = Assignment(
    name="list_ranking",
    title="List ranking by pointer jumping",
    function="rank_list",
    statement=_STATEMENT,
    checks=(
        Correct("right", "Right on 2, 3, 4 and 8 ranks", 2, _right, _oracle,
                "In a round every element asks the one that it points to where that one points, and how many "
                "links that is."),
        Correct("any_number", "Any number of ranks, also more than elements", 2, _any_number, _oracle,
                "Which rank owns element e? A rank without elements takes part in all exchanges."),
        Correct("kinds", "Any lists: several, of one element, in order, backwards, none", 2, _kinds, _oracle,
                "The last element of a list points to itself, with no link: adding that up changes nothing."),
        Costs("rounds", "A logarithmic number of rounds", 3, _cost_cases, _oracle,
              [Bound("chain", _chain, "(ceil(log2 n) + 2) (4 p + 4 ceil(log2 p))"), *_BYTES],
              "After a round an element points twice as far. How many rounds are that for n elements?"),
        Costs("volume", "A rank receives what its elements ask for", 2, _volume_cases, _oracle, _BYTES,
              "An element that points to the end of its list asks no more. No rank needs all successors."),
    ),
)  # fmt: skip
