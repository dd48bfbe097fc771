"""Assignment: breadth-first search by levels in a graph that is distributed over the ranks."""

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
Write distances(comm, n, edges, root): a breadth-first search from vertex `root` in an undirected graph of n
vertices. `edges` is this rank's share of the edges, an integer array of shape (m_local, 2), in no order; a
rank may have none. Loops and repeated edges occur. Rank r owns the vertices from r n // p to (r + 1) n // p,
and returns an integer array of their distances from the root: the number of edges of a shortest path, -1
where there is none. With L levels (the largest distance and 1), all ranks together send no more than L + 3
times 2 p (p - 1) + 4 p ceil(log2 p) messages. With d ends of edges at the vertices of the rank that has most,
a rank receives no more than 32 d + 250 p (L + 3) bytes, nor, packed, than 12 d + 180 p (L + 3).
Graphs, how their edges are dealt out, and numbers of ranks are drawn anew for every grading, from 1 to 64."""

Edges = NDArray[np.int64]


def _numbers(source: Seed, count: int, below: int, *label: object) -> Any:
    return (source.array(count, "uint64", *label) % np.uint64(max(below, 1))).astype(np.int64)


def _permutation(source: Seed, n: int, *label: object) -> Any:
    return source.array(n, "uint64", "permutation", *label).argsort()


def _uniform(source: Seed, n: int, m: int, *label: object) -> Edges:
    """Return m random edges."""
    found: Edges = _numbers(source, 2 * m, n, "uniform", *label).reshape(m, 2)
    return found


def _rmat(source: Seed, n: int, m: int, *label: object) -> Edges:
    """Return m edges of a recursive matrix (0.57, 0.19, 0.19, 0.05), cut to n vertices, in any order."""
    bits = math.ceil(math.log2(n))
    draws = source.array(m * bits, "float64", "rmat", *label).reshape(m, bits)
    tails, heads = draws > 0.76, ((draws > 0.57) & (draws <= 0.76)) | (draws > 0.95)
    weights = 1 << np.arange(bits)
    ends = np.column_stack([tails @ weights, heads @ weights]) % n
    found: Edges = _permutation(source, n, *label)[ends]
    return found


def _grid(rows: int, columns: int) -> Edges:
    at = np.arange(rows * columns).reshape(rows, columns)
    pairs = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    return np.concatenate([np.column_stack([one.ravel(), two.ravel()]) for one, two in pairs])


def _path(n: int) -> Edges:
    return np.column_stack([np.arange(n - 1), np.arange(1, n)])


def _small_world(source: Seed, n: int, m: int, *label: object) -> Edges:
    """Return a ring with chords."""
    ring = np.column_stack([np.arange(n), (np.arange(n) + 1) % n])
    chords = _uniform(source, n, m - n, *label)
    found: Edges = _permutation(source, n, *label)[np.concatenate([ring, chords])]
    return found


def _case(
    seed: int, ranks: int, n: int, edges: Edges, words: str, root: int | None = None, dealt: str = "random"
) -> Case:
    """Return a case; without a root one end of some edge is it, both ends of edges are mixed, too."""
    source, label = Seed.of(seed), (ranks, n, words)
    m = len(edges)
    if root is None:
        root = int(edges[source.drawn(0, m - 1, "root", *label), source.drawn(0, 1, "end", *label)])
    swap = source.array(m, "float64", "swap", *label) < 0.5
    edges = np.where(swap[:, None], edges[:, ::-1], edges)[_permutation(source, m, "deal", *label)]
    if dealt == "random":
        owner = _numbers(source, m, ranks, "owner", *label)
    elif dealt == "few":  # two ranks have all of them
        owner = np.where(
            source.array(m, "float64", "few", *label) < 0.5, source.drawn(0, ranks - 1, *label), 0
        )
    else:
        owner = np.full(m, source.drawn(0, ranks - 1, "one", *label))
    own = [np.ascontiguousarray(edges[owner == rank]) for rank in range(ranks)]
    said = f"{n} {'vertex' if n == 1 else 'vertices'}, {m} edges, {words}, root {root}"
    inputs = [part.tolist() for part in own] if m <= 20 else None
    return Case(ranks, [(n, part, root) for part in own], said, inputs, _needs)


def _levels(n: int, edges: Edges, root: int) -> Any:
    """Return all distances, by a sequential search."""
    return _searched(n, edges.tobytes(), root)


@lru_cache(maxsize=64)
def _searched(n: int, data: bytes, root: int) -> Any:
    edges = np.frombuffer(data, np.int64).reshape(-1, 2)
    tails, heads = np.concatenate([edges, edges[:, ::-1]]).T
    order = np.argsort(tails, kind="stable")
    begin, heads = np.searchsorted(tails[order], np.arange(n + 1)), heads[order]
    found = np.full(n, -1)
    found[root], frontier, level = 0, np.array([root]), 0
    while len(frontier):
        level += 1
        ends = np.concatenate([heads[begin[v] : begin[v + 1]] for v in frontier])
        frontier = np.unique(ends[found[ends] < 0])
        found[frontier] = level
    return found


def _whole(case: Case) -> tuple[int, Edges, int]:
    n, _, root = case.arguments[0]
    return n, np.concatenate([edges for _, edges, _ in case.arguments]), root


def _blocks(whole: Any, ranks: int) -> list[Any]:
    n = len(whole)
    return [whole[rank * n // ranks : (rank + 1) * n // ranks] for rank in range(ranks)]


def _needs(case: Case, results: list[Any]) -> list[int]:
    """A bit for each own vertex whose distance does not follow from a rank's share of the edges."""
    found = []
    wanted = _blocks(_levels(*_whole(case)), case.ranks)
    for rank, (n, edges, root) in enumerate(case.arguments):
        known = _blocks(_levels(n, edges, root), case.ranks)[rank]
        count = int((known != wanted[rank]).sum())
        found.append(max(count // 8, min(count, 1)))
    return found


def _oracle(case: Case, results: list[Any]) -> str | None:
    return wrong_integers(_blocks(_levels(*_whole(case)), case.ranks), results, "distances", "vertex")


def _right(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    yield _case(seed, 2, 4, _path(4), "a path", 0)
    for ranks in (2, 3, 4, 8):
        yield _case(seed, ranks, 12, _permutation(source, 12, ranks)[_grid(3, 4)], "a grid")


def _any_number(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    yield _case(seed, 1, 9, _uniform(source, 9, 12, "one"), "random")
    yield _case(seed, 5, 3, _path(3), "a path", 2)
    for nth, ranks in enumerate((*source.ranks(6, 32, 4, "any"), *source.ranks(33, 64, 1, "many"))):
        n = source.drawn(30, 90, "any", nth)
        yield _case(seed, ranks, n, _rmat(source, n, 4 * n, "any", nth), "R-MAT")


def _kinds(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    sizes = source.strata(12, 60, 6, "kinds")
    ranks = source.shuffled(source.ranks(2, 12, 6, "kinds"), "kinds")
    yield _case(seed, 3, 7, np.empty((0, 2), np.int64), "no edges", source.drawn(0, 6, "none"))
    yield _case(seed, 2, 1, np.zeros((2, 2), np.int64), "two loops", 0)
    rows = source.drawn(3, 6, "rows")
    columns = sizes[0] // rows + 2
    yield _case(seed, ranks[0], rows * columns, _grid(rows, columns), f"a grid of {rows} x {columns}")
    n = sizes[1]
    yield _case(seed, ranks[1], n, _permutation(source, n, "path")[_path(n)], "a path in any order")
    n = sizes[2]
    star = np.column_stack([np.full(n - 1, n // 2), np.delete(np.arange(n), n // 2)])
    yield _case(seed, ranks[2], n, star, "a star")
    n = 8 + sizes[3] // 8
    yield _case(seed, ranks[3], n, np.argwhere(np.ones((n, n), bool)), "all edges, each twice, and loops")
    n, half = 2 * sizes[4], sizes[4]
    two = np.concatenate([_rmat(source, half, 3 * half, "one"), half + _uniform(source, half, half, "two")])
    yield _case(seed, ranks[4], n, _permutation(source, n, "parts")[two], "two or more components")
    n = sizes[5]
    lonely = source.drawn(0, n - 1, "lonely")
    others = np.delete(np.arange(n), lonely)[_uniform(source, n - 1, 2 * n, "others")]
    yield _case(seed, ranks[5], n, others, "the root is alone", lonely)


def _dealt(seed: int) -> Iterator[Case]:
    """Yield graphs whose edges are on one rank or two, and graphs with fewer vertices than ranks."""
    source = Seed.of(seed)
    for nth, ranks in enumerate(source.ranks(4, 20, 4, "dealt")):
        n = source.drawn(20, 60, "dealt", nth) if nth else ranks - 1
        edges = _uniform(source, n, 2 * n, "dealt", nth)
        dealt = "one" if nth % 2 else "few"
        words = "random, on one rank" if nth % 2 else "random, on two ranks"
        yield _case(seed, ranks, n, edges, words, dealt=dealt)


def _volume_cases(seed: int) -> Iterator[Case]:
    """Yield graphs of few levels with so many edges that all of them are more than a rank may receive."""
    source = Seed.of(seed)
    sizes = source.strata(60_000, 100_000, 5, "edges")
    makers = source.shuffled([_rmat, _rmat, _uniform, _uniform, _small_world], "makers")
    for nth, ranks in enumerate(source.ranks(12, 64, 5, "volume")):
        n = source.drawn(2500, 5000, "vertices", nth)
        edges = makers[nth](source, n, sizes[nth], "volume", nth)
        yield _case(seed, ranks, n, edges, "few levels")


def _cost_cases(seed: int) -> Iterator[Case]:
    """Yield those, and graphs of many levels: a grid and a path."""
    yield from _volume_cases(seed)
    source = Seed.of(seed)
    for nth, ranks in enumerate(source.ranks(3, 16, 4, "levels")):
        rows = source.drawn(2, 4, "rows", nth)
        n = source.drawn(20, 40, "levels", nth)
        edges, words = (_grid(rows, n), "many levels") if nth % 2 else (_path(n), "a path")
        vertices = int(edges.max()) + 1
        edges = _permutation(source, vertices, "levels", nth)[edges]
        yield _case(seed, ranks, vertices, edges, words)


def _count_of_levels(case: Case) -> int:
    return int(_levels(*_whole(case)).max()) + 1


def _messages(case: Case) -> float:
    """Return those of two all-to-all exchanges and two collectives in each level, and three times more."""
    p = case.ranks
    return (_count_of_levels(case) + 3) * (2 * p * (p - 1) + 4 * p * math.ceil(math.log2(p)))


def _most_ends(case: Case) -> int:
    """Return the ends of edges at the vertices of the rank that has most."""
    n, edges, _ = _whole(case)
    degrees = np.bincount(edges.ravel(), minlength=n)
    return max(int(part.sum()) for part in _blocks(degrees, case.ranks))


def _received(case: Case) -> float:
    return 32.0 * _most_ends(case) + 250 * case.ranks * (_count_of_levels(case) + 3)


def _told(case: Case) -> float:
    return 12.0 * _most_ends(case) + 180 * case.ranks * (_count_of_levels(case) + 3)


_BYTES = [
    Bound("told", _told, "12 d + 180 p (L + 3) bytes"),
    Bound("received", _received, "32 d + 250 p (L + 3) bytes"),
]

ASSIGNMENT = Assignment(
    name="bfs",
    title="Breadth-first search by levels",
    function="distances",
    statement=_STATEMENT,
    checks=(
        Correct("right", "Right on 2, 3, 4 and 8 ranks", 2, _right, _oracle,
                "An edge is known to one rank only: who must know it to go on from either of its ends?"),
        Correct("any_number", "Any number of ranks, also more than vertices", 2, _any_number, _oracle,
                "Which rank owns vertex v? Not v // (n // p): that is 0 for fewer vertices than ranks."),
        Correct("kinds", "Any graph: path, grid, star, components, loops, no edges", 2, _kinds, _oracle,
                "When may a rank stop? When no rank has found a new vertex: not before."),
        Correct("dealt", "Edges on one rank or two", 1, _dealt, _oracle,
                "What is the shape of a share without edges? Does a rank that owns no vertex take part?"),
        Costs("messages", "Messages for each level, not for each edge", 2, _cost_cases, _oracle,
              [Bound("messages", _messages, "(L + 3) (2 p (p - 1) + 4 p ceil(log2 p))"), *_BYTES],
              "In a level a rank sends all that it has for another one in one message, and one allreduce "
              "tells whether there is another level."),
        Costs("volume", "A rank receives its vertices' edges, a few times", 2, _volume_cases, _oracle, _BYTES,
              "Only the vertices that are new in a level send to their neighbors, and only to these."),
    ),
)  # fmt: skip
