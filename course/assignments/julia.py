"""Assignment: the speed-up of a Julia set, whose rows take very different times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from labkit.grading.assignment import Assignment
from labkit.grading.checks import Correct
from labkit.grading.sandbox.outcome import Work
from labkit.grading.seeds import Seed
from labkit.grading.speedup import Once, SpeedUp
from labkit.grading.trial import Case, instead_of, shown

__all__ = ["ASSIGNMENT"]

_STATEMENT = """\
Write julia(comm, n, row): rank 0 returns the picture of a Julia set, a NumPy array of n rows, the
others None. row(y) computes row y, 0 <= y < n, as a NumPy array of integers: how often each point is
iterated before it escapes. That takes 10 microseconds of simulated time for each iteration, so some
rows take much longer than others, and nobody knows which before they are computed. Each row is computed
once, on some rank; rank 0 may compute, too. On 8 to 16 ranks, with 20 to 25 rows for each, the
efficiency (speed-up over ranks) is at least 60 %. Any calls of MPI, any number of ranks, also more ranks
than rows. Numbers of ranks and rows, and the set, are drawn anew for every grading."""

_WIDTH, _MOST = 48, 120
_ITERATION_S = 1e-5
#: of rows whose costs are made to be bad for a pattern
_DEAR_S, _CHEAP_S = 0.04, 0.005
#: deals of a fifth of dear rows that are tried, and their time: rows that are shuffled pass all of them in
#: 1 of 10,000 gradings, rows that are handed out one by one or in pairs always
_DEALS, _DEALT_S = 8, 0.23
_SETS = (-0.8 + 0.156j, -0.4 + 0.6j, -0.835 - 0.2321j, -0.12 + 0.74j, -0.1 + 0.65j, -0.5 + 0.5j, 0.25 + 0.5j)


@lru_cache(maxsize=16)
def julia_rows(n: int, c: complex, first: float, last: float) -> Any:
    """Return the iterations of n x 48 points before z -> z**2 + c escapes from |z| <= 2, at most 120.

    Parameters
    ----------
    n : int
        Rows, from `first` to `last` on the imaginary axis.
    c : complex
    first, last : float
    """
    y = np.linspace(first, last, n) if n > 1 else np.array([first])
    z = np.linspace(-1.6, 1.5, _WIDTH)[None, :] + 1j * y[:, None]
    found = np.zeros(z.shape, np.int64)
    is_in = np.ones(z.shape, bool)
    for _ in range(_MOST):
        is_in &= z.real**2 + z.imag**2 <= 4
        found += is_in
        z = np.where(is_in, z * z + c, 4)
    return found


def _case(seed: int, ranks: int, n: int, words: str = "") -> Case:
    source = Seed.of(seed)

    def part(label: str) -> float:
        return source.number(label, ranks, n, words, source.draw) % 1000 / 1000

    c = _SETS[int(part("set") * len(_SETS))] + 0.004 * (part("x") - 0.5) + 0.004j * (part("y") - 0.5)
    # not symmetric: half of the rows would be the other half
    picture = julia_rows(n, c, -0.05 - 0.1 * part("first"), 1.5 + 0.1 * part("last"))
    return _given(ranks, picture, _ITERATION_S * picture.sum(1), words)


def _given(ranks: int, picture: Any, seconds: Any, words: str) -> Case:
    n = len(picture)
    rows = f"{n} row{'s' if n != 1 else ''}{words}"
    work = Work(list(picture), [float(one) for one in seconds])
    return Case(ranks, [(n,)] * ranks, rows, needs=_needs, work=work)


def _needs(case: Case, results: list[Any]) -> list[int]:
    """Rank 0 needs the picture: it has computed its rows, or received them."""
    return [results[0].nbytes // 16, *[0] * (case.ranks - 1)]  # small numbers travel in one byte of eight


def _oracle(case: Case, results: list[Any]) -> str | None:
    assert case.work is not None
    wanted = np.array(case.work.results)
    for rank, found in enumerate(results[1:], 1):
        if found is not None:
            return f"rank {rank} returned {shown(found)}, expected None"
    found = results[0]
    if not isinstance(found, np.ndarray):
        return f"rank 0 returned {shown(found)}, not an array"
    if found.shape != wanted.shape or found.dtype.kind not in "iu":
        return (
            f"rank 0 returned {found.dtype} of shape {found.shape}, expected integers of shape {wanted.shape}"
        )
    wrong = np.flatnonzero((found != wanted).any(1))
    if len(wrong):
        y = int(wrong[0])
        of = f"row {y} of rank 0's picture, the first wrong one of {len(wrong)},"
        return f"{of} is {instead_of(found[y], wanted[y], found[y] != wanted[y])}"
    return None


def _right(seed: int) -> list[Case]:
    return [_case(seed, ranks, 12) for ranks in (1, 2, 4)]


def _any_number(seed: int) -> list[Case]:
    drawn = Seed.of(seed).ranks(8, 24, 3, "any")  # beyond those that are always asked for
    some = [_case(seed, ranks, n) for ranks, n in ((2, 1), (3, 10), (5, 7), (7, 3))]
    return [*some, *(_case(seed, ranks, 2 * ranks + 1) for ranks in drawn)]


def _large(seed: int) -> list[Case]:
    """Return a case of each number of ranks: of some of them, a residue of p would be left out."""
    source = Seed.of(seed)
    return [_case(seed, ranks, _rows(source, ranks)) for ranks in range(8, 17)]


def _rows(source: Seed, ranks: int, *label: object) -> int:
    return source.drawn(20 * ranks, 25 * ranks, "rows", ranks, *label)


def _every_case(seed: int) -> list[Case]:
    return [*_any_number(seed), *_large(seed)]


def _any_costs(seed: int) -> list[Case]:
    """Rows that are dear where a fixed pattern takes them for one rank, and where nobody knows it before."""
    source, cases = Seed.of(seed), []
    (ranks,) = source.ranks(8, 12, 1, "costs")
    n = _rows(source, ranks, "costs")
    y = np.arange(n)
    for words, is_dear in (
        (", every p-th one dear", y % ranks == ranks // 2), (", the last ones dear", y >= n - 2 * ranks),
        (", two neighbors of every 2 p dear", y // 2 % ranks == 1),
    ):  # fmt: skip
        cases.append(_costing(seed, ranks, is_dear, words))
    # who deals the rows out at random is lucky now and then, but not each time
    for nth, ranks in enumerate(source.ranks(8, 16, _DEALS, "deal")):
        n = _rows(source, ranks, "deal", nth)
        is_dear = np.zeros(n, bool)
        is_dear[source.array(n, "float64", "deal", nth, source.draw).argsort()[: n // 5]] = True
        cases.append(_costing(seed, ranks, is_dear, f", a fifth dear, deal {nth + 1}", _DEALT_S))
    return [*cases, _costing(seed, ranks, np.zeros(n, bool), ", none dear")]


def _costing(seed: int, ranks: int, is_dear: Any, words: str, dear_s: float = _DEAR_S) -> Case:
    n = len(is_dear)
    picture = Seed.of(seed).array(n * 4, "uint8", "costs", ranks, words).astype(np.int64).reshape(n, 4)
    return _given(ranks, picture, np.where(is_dear, dear_s, _CHEAP_S), words)


def _dear_for_one(case: Case, tasks: Sequence[Sequence[int]]) -> Case:
    """Return rows that are dear where one rank computes them, if the rows are dealt out as they were."""
    assert case.work is not None
    picture = np.array(case.work.results)
    dear = max(tasks, key=len)[: len(picture) // case.ranks]
    seconds = np.full(len(picture), _CHEAP_S)
    seconds[list(dear)] = _DEAR_S
    return _given(case.ranks, picture, seconds, ", those dear that one rank has computed when none was")


ASSIGNMENT = Assignment(
    name="julia",
    title="Speed-up of a Julia set",
    function="julia",
    statement=_STATEMENT,
    checks=(
        Correct("right", "The picture is right on 1, 2 and 4 ranks", 2, _right, _oracle,
                "Which row is it that arrives? A row does not say its number."),
        Correct("any_number", "Any number of ranks and rows", 2, _any_number, _oracle,
                "Does a rank without a row take part in all that others wait for?"),
        Once("once", "Each row is computed once", 1, _every_case, _oracle,
             "Who computes a row that another rank computes, too?"),
        SpeedUp("speedup", "Efficiency of at least 60 % on 8 to 16 ranks", 4, _large, _oracle,
                ((0.6, 1.0), (0.5, 0.5)),
                "Neighboring rows take similar times: who gets all the dear ones? Deal them out, or hand "
                "them out one by one."),
        SpeedUp("any_costs", "65 % whatever the rows cost", 2, _any_costs, _oracle, ((0.65, 1.0),),
                "A fixed pattern has its bad case. Who is free should get the next row.", is_bonus=True,
                against=_dear_for_one),
    ),
)  # fmt: skip
