"""Assignment: search a tree that nobody knows, by ranks that take work from each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from labkit.grading.assignment import Assignment
from labkit.grading.checks import Correct
from labkit.grading.sandbox.outcome import Work
from labkit.grading.seeds import Seed
from labkit.grading.speedup import Once, SpeedUp
from labkit.grading.trial import Case, shown

__all__ = ["ASSIGNMENT"]

_STATEMENT = """\
Write search(comm, root, expand): the sum of the values of all nodes of a tree, an integer, on every rank.
Rank 0 gets the number of the root, all others None. expand(node) returns an array of integers: the value of
a node, then the numbers of its children, if it has any. That takes between 0.5 and 1.5 ms of simulated time.
Numbers of nodes are whole numbers in no order, and not every number is a node's: expand only what was found.
Each node is expanded once, on any rank. Trees are irregular: a child may have nearly all nodes below it, and
nobody knows which. On 8 to 16 ranks, with 120 to 140 nodes for each, the efficiency (speed-up over ranks) is
at least 40 %. The search ends on any number of ranks, also where there are fewer nodes than ranks, and where
no two nodes can be expanded at the same time; every message has been received when it ends. Messages and
collectives of MPI, no windows. Trees and numbers of ranks are drawn anew for every grading, ranks from 1
to 64."""

#: numbers that are no node's, for each node: to expand all numbers takes that much longer
_OTHERS = 3
#: of each node its children
Children = list[list[int]]


def _case(seed: int, ranks: int, children: Children, words: str) -> Case:
    """Return a case: the nodes 0, 1, ..., of which 0 is the root, get other numbers."""
    source, label, n = Seed.of(seed), (ranks, len(children), words), len(children)
    every = n * (1 + _OTHERS)
    number = source.array(every, "uint64", "numbers", source.draw, *label).argsort()[:n].tolist()
    values = (source.array(every, "uint64", "values", source.draw, *label) >> np.uint64(24)).astype(np.int64)
    drawn = source.array(every, "float64", "seconds", source.draw, *label)
    results = [np.array([value], np.int64) for value in values]
    for node, own in enumerate(children):
        results[number[node]] = np.array([values[number[node]], *(number[child] for child in own)], np.int64)
    work = Work(results, (5e-4 + 1e-3 * drawn).tolist(), asked_for=frozenset(number))
    arguments = [(number[0] if rank == 0 else None,) for rank in range(ranks)]
    said = f"{n} node{'s' if n != 1 else ''}, {words}"
    return Case(ranks, arguments, said, needs=_needs, work=work, how={"charges": False})


def _needs(case: Case, results: list[Any]) -> list[int]:
    """Return the bytes of a sum: a rank has had a node expanded, or it has received something."""
    return [8] * case.ranks


def _oracle(case: Case, results: list[Any]) -> str | None:
    assert case.work is not None
    wanted = sum(int(case.work.results[node][0]) for node in case.work.wanted())
    for rank, found in enumerate(results):
        if isinstance(found, bool) or not isinstance(found, int | np.integer) or found != wanted:
            return f"rank {rank} returned {shown(found)}, expected {wanted}"
    return None


def _grown(source: Seed, n: int, parent: Callable[[int, float], int], *label: object) -> Children:
    """Return a tree of n nodes, each below the one that `parent(node, number from 0 to 1)` says."""
    children: Children = [[] for _ in range(n)]
    for node, drawn in enumerate(source.array(n, "float64", "tree", source.draw, *label).tolist()):
        if node:
            children[parent(node, drawn)].append(node)
    return children


def _uneven(source: Seed, n: int, share: float, *label: object) -> Children:
    """Return a binary tree: of the nodes below a node one child, the first or the second, has a share."""
    children: Children = [[] for _ in range(n)]
    sides = source.array(n, "float64", "sides", source.draw, *label)
    open_, free = [(0, n - 1)], 1
    while open_:
        node, below = open_.pop()
        large = math.ceil(share * below)
        for part in (large, below - large) if sides[node] < 0.5 else (below - large, large):
            if part:
                children[node].append(free)
                open_.append((free, part - 1))
                free += 1
    return children


def _late(source: Seed, n: int, parts: int, *label: object) -> Children:
    """Return a path, and below each of its nodes a bush: the last ones are found late."""
    return _grown(source, n, lambda node, x: node - 1 if node < parts else _in_bush(node, x, parts), *label)


def _in_bush(node: int, drawn: float, parts: int) -> int:
    """Return a node of the same bush, one of the older half, or the path's node."""
    before = (node - parts) // parts
    return node % parts if before < 1 else parts * int(drawn * (before + 1) / 2) + node % parts


def _bushy(source: Seed, n: int, *label: object) -> Children:
    """Return a tree whose nodes have a parent of any age."""
    return _grown(source, n, lambda node, x: int(x * node), *label)


def _wide(source: Seed, n: int, *label: object) -> Children:
    """Return a root with many children, and nearly all other nodes below three of them."""
    many = max(n // 8, 3)
    return _grown(source, n, lambda node, x: 0 if node <= many else _older(node, x, many), *label)


def _older(node: int, drawn: float, many: int) -> int:
    """Return one of the first three children, or an older node below them, of any age."""
    place = int(drawn * (node - many + 2))
    return place + 1 if place < 3 else many + place - 2


def _path(n: int) -> Children:
    return [*([node + 1] for node in range(n - 1)), []]


def _right(seed: int) -> list[Case]:
    source = Seed.of(seed)
    return [_case(seed, ranks, _bushy(source, 14, ranks), "of any shape") for ranks in (1, 2, 4)]


def _any_number(seed: int) -> list[Case]:
    source = Seed.of(seed)
    found = [_case(seed, 1, _path(1), "only the root"), _case(seed, 3, _path(1), "only the root")]
    found += [
        _case(seed, 5, _path(source.drawn(9, 14, "path")), "a path"),
        _case(seed, 7, _path(4), "a path"),
    ]
    # few enough that a round of messages for each level of a path is no loop that polls
    for nth, ranks in enumerate((*source.ranks(6, 32, 3, "any"), *source.ranks(33, 40, 1, "many"))):
        n = source.drawn(ranks // 2, 3 * ranks, "any", nth)
        found.append(_case(seed, ranks, _bushy(source, n, "any", nth), "of any shape"))
    return found


def _large(seed: int) -> list[Case]:
    """Return trees of each kind, on 8 to 16 ranks."""
    source = Seed.of(seed)
    ranks = source.shuffled(source.ranks(8, 16, 4, "large"), "large")
    sizes = [source.drawn(120 * p, 140 * p, "large", nth) for nth, p in enumerate(ranks)]
    trees: Sequence[tuple[str, Children]] = (
        ("one child has most", _uneven(source, sizes[0], source.drawn(66, 72, "share") / 100, "uneven")),
        ("most are found late", _late(source, sizes[1], source.drawn(8, 12, "late"), "late")),
        ("of any shape", _bushy(source, sizes[2], "bushy")),
        ("many children of the root", _wide(source, sizes[3], "wide")),
    )
    return [_case(seed, p, tree, words) for p, (words, tree) in zip(ranks, trees, strict=True)]


def _every_case(seed: int) -> list[Case]:
    return [*_any_number(seed), *_large(seed)]


ASSIGNMENT = Assignment(
    name="work_stealing",
    title="Searching a tree by work stealing",
    function="search",
    statement=_STATEMENT,
    checks=(
        Correct("right", "Right on 1, 2 and 4 ranks", 2, _right, _oracle,
                "Which nodes have not been expanded when the search ends? Are some on their way?"),
        Correct("any_number", "Ends on any number of ranks, and leaves no message", 3, _any_number, _oracle,
                "When may a rank stop? When no rank has a node, and no message has one. Does a rank that is "
                "asked all the time expand a node in between? Who receives the last questions and answers?",
                leaves_none=True),
        Once("once", "Each node is expanded once, and no other number", 1, _every_case, _oracle,
             "Who gives nodes away must not keep them.", "node"),
        SpeedUp("balanced", "Efficiency of at least 40 % on 8 to 16 ranks", 4, _large, _oracle,
                ((0.4, 1.0), (0.3, 0.5)),
                "Who has no node left asks others. How often does a rank look whether it is asked? What does "
                "it give: one node, or half of them?"),
    ),
)  # fmt: skip
