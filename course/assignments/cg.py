"""Assignment: conjugate gradients whose sum over all ranks is hidden behind the product with the matrix."""

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
from labkit.grading.trial import Case, shown, type_and_shape

__all__ = ["ASSIGNMENT"]

_STATEMENT = """\
Write solve(comm, shift, b, tolerance): conjugate gradients for A x = b, beginning at x = 0. The unknowns are
the points of a grid of m rows and w columns, and (A v)[i, j] is (4 + shift[i, j]) v[i, j] less the values of
v at the four neighbors, 0 outside of the grid. Rank r has the rows from r m // p to (r + 1) m // p of shift
and b, arrays of shape (rows, w) with one row or more. product(comm, shift, v) is given and returns its rows
of A v. solve returns two values: its rows of x, and the list of the norms of the residual that the recurrence
has, on every rank the norm over all ranks: first that of b, then one for each step. The last one is the first
that is at most tolerance times the norm of b. Let S be the number of steps and C = ceil(log2 p). No chain of
messages, each sent after the one before was received, is longer than (S + 4) (C + 2): that of two sums one
after the other is. A rank receives no more than (S + 4) (24 w + 300 (C + 1)) bytes: all rows of shift and b
are more. The time counts on a network where a message takes 2 ms, whether its receive is there or not, and a
product 2 (C + 2) ms: there a run takes at most 1.25 (S + 3) times as long as a product. A product and a sum
over all ranks that begins when the product has ended take longer. Systems, their sizes and numbers of ranks
are drawn anew for every grading, ranks from 1 to 64."""

#: of each of the two links of a route
_LATENCY_S = 1e-3
#: rows and sums leave at once, also where receives are posted one after another
_MODEL = "raw,eager_below_bytes=65536"
#: by how much a norm of a residual may differ from that of the serial program: recurrences differ by rounding
_SAME = 1e-3

Rows = NDArray[np.float64]


def _parts(whole: Rows, ranks: int) -> list[Rows]:
    m = len(whole)
    return [whole[r * m // ranks : (r + 1) * m // ranks].copy() for r in range(ranks)]


def _case(ranks: int, shift: Rows, b: Rows, words: str, tolerance: float = 1e-8, **how: Any) -> Case:
    arguments = [(*both, tolerance) for both in zip(_parts(shift, ranks), _parts(b, ranks), strict=True)]
    said = f"{b.shape[0]} x {b.shape[1]} points, {words}, tolerance {tolerance:g}"
    return Case(ranks, arguments, said, arguments if b.size <= 24 else None, _needs, how=how)


def _whole(case: Case) -> tuple[Rows, Rows, float]:
    shift, b = (np.concatenate([own[which] for own in case.arguments]) for which in (0, 1))
    return shift, b, case.arguments[0][2]


def _product(shift: Rows, v: Rows) -> Rows:
    around = np.pad(v, 1)
    found: Rows = (
        (4 + shift) * v - around[:-2, 1:-1] - around[2:, 1:-1] - around[1:-1, :-2] - around[1:-1, 2:]
    )
    return found


def _norms(case: Case) -> list[float]:
    """Return the norms of the residuals, by a sequential program."""
    shift, b, tolerance = _whole(case)
    return _solved(shift.tobytes(), b.tobytes(), b.shape, tolerance)


@lru_cache(maxsize=64)
def _solved(shift_data: bytes, b_data: bytes, shape: tuple[int, int], tolerance: float) -> list[float]:
    shift, r = (np.frombuffer(data).reshape(shape) for data in (shift_data, b_data))
    p, rho = r, float((r * r).sum())
    norms = [math.sqrt(rho)]
    while norms[-1] > tolerance * norms[0]:
        s = _product(shift, p)
        r = r - rho / float((p * s).sum()) * s
        rho, last = float((r * r).sum()), rho
        p = r + rho / last * p
        norms.append(math.sqrt(rho))
    return norms


def _needs(case: Case, results: list[Any]) -> list[int]:
    """Return the bytes of the norms after steps: those need sums over all ranks."""
    return [8 * (len(results[0][1]) - 1) if case.ranks > 1 else 0] * case.ranks


def _oracle(case: Case, results: list[Any]) -> str | None:
    shift, b, tolerance = _whole(case)
    wanted, parts = np.array(_norms(case)), _parts(b, case.ranks)
    for rank, (found, own) in enumerate(zip(results, parts, strict=True)):
        if not isinstance(found, list | tuple) or len(found) != 2:
            return (
                f"rank {rank} returned {shown(found)}, expected two values: x and the norms of the residual"
            )
        x, norms = found
        if not isinstance(x, np.ndarray) or x.shape != own.shape or x.dtype != np.float64:
            wanted_x = f"expected a float64 array of shape {own.shape}"
            return f"rank {rank} returned {type_and_shape(x)} for x, {wanted_x}"
        if wrong := _wrong_norms(norms, wanted, tolerance):
            return f"rank {rank} {wrong}"
    whole = np.concatenate([x for x, _ in results])
    left = float(np.linalg.norm(b - _product(shift, whole)))
    if not left <= 1.5 * tolerance * wanted[0]:
        return (
            f"the norm of b - A x is {left:.3g}, expected at most {tolerance:g} times the norm of b, "
            f"{tolerance * wanted[0]:.3g}"
        )
    return None


def _wrong_norms(norms: Any, wanted: NDArray[np.float64], tolerance: float) -> str:
    """Return what is wrong with the norms that a rank has returned."""
    try:
        found = np.array(norms, np.float64)
    except (TypeError, ValueError):
        found = np.empty((0, 0))
    if found.ndim != 1 or not len(found):
        return f"returned {shown(norms)} for the norms of the residual, expected a list of numbers"
    both = min(len(found), len(wanted))
    is_near = np.abs(found[:both] - wanted[:both]) <= _SAME * wanted[:both] + 1e-14 * wanted[0]
    if not is_near.all():
        step = int(np.flatnonzero(~is_near)[0])
        return f"returned {found[step]:.6g} for the norm after {step} steps, expected {wanted[step]:.6g}"
    goal = tolerance * wanted[0]
    stops_early = found[-1] > (1 + _SAME) * goal
    stops_late = len(found) > 1 and found[-2] < (1 - _SAME) * goal
    if stops_early or stops_late or abs(len(found) - len(wanted)) > 1:
        return (
            f"took {len(found) - 1} steps, expected {len(wanted) - 1}: the last norm is the first that is at "
            f"most {tolerance:g} times the norm of b"
        )
    return ""


def _system(source: Seed, shape: tuple[int, int], least: float, *label: object) -> tuple[Rows, Rows]:
    """Return a shift, `least` to three times that, and a right-hand side."""
    n = shape[0] * shape[1]
    shift = least * (1 + 2 * source.array(n, "float64", "shift", *label)).reshape(shape)
    b = (2 * source.array(n, "float64", "b", *label) - 1).reshape(shape)
    return shift, b


def _right(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    yield _case(2, *_system(source, (2, 2), 1.0, "smallest"), "random")
    for ranks in (2, 3, 4, 8):
        yield _case(ranks, *_system(source, (ranks + 4, 4), 0.3, "right", ranks), "random")


def _any_number(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    yield _case(1, *_system(source, (4, 3), 0.3, "one"), "random")
    yield _case(5, *_system(source, (5, 3), 0.3, "five"), "random")
    # few enough that a sum around a ring in each of 33 steps is no loop that polls
    for nth, ranks in enumerate((*source.ranks(6, 32, 4, "any"), *source.ranks(33, 38, 1, "many"))):
        shape = ranks + source.drawn(0, 20, "rows", nth), source.drawn(2, 9, "columns", nth)
        # on many ranks half the steps: each call of each rank takes the grader time
        tolerance = 1e-8 if ranks < 16 else 1e-4
        yield _case(ranks, *_system(source, shape, 0.3, "any", nth), "random", tolerance)


def _kinds(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    ranks = source.shuffled(source.ranks(2, 14, 6, "kinds"), "kinds")
    columns = source.strata(2, 20, 6, "kinds")
    shapes = [(p + source.drawn(0, 12, "kinds", nth), columns[nth]) for nth, p in enumerate(ranks)]
    shift, b = _system(source, (7, 3), 0.3, "zero")
    yield _case(3, shift, 0 * b, "b = 0")
    yield _case(3, shift, b, "no step is needed", 1.0)
    yield _case(1, shift[:1, :1], b[:1, :1], "one unknown")
    shift, b = _system(source, shapes[0], 0.3, "point")
    b = np.zeros(shapes[0])
    b[source.drawn(0, shapes[0][0] - 1, "i"), source.drawn(0, shapes[0][1] - 1, "j")] = 1
    yield _case(ranks[0], shift, b, "one point of b is 1, all others are 0")
    yield _case(ranks[1], *_system(source, (shapes[1][0], 1), 0.3, "line"), "one column")
    yield _case(ranks[2], *_system(source, shapes[2], 0.01, "many"), "many steps", 1e-6)
    shift, b = _system(source, shapes[3], 0.3, "large")
    yield _case(ranks[3], shift, 1e7 * b, "large numbers")
    shift, b = _system(source, shapes[4], 0.3, "small")
    yield _case(ranks[4], shift, 1e-7 * b, "small numbers", 1e-10)
    yield _case(ranks[5], *_system(source, shapes[5], 2.0, "rough"), "few steps", 0.01)


def _cost_cases(seed: int) -> Iterator[Case]:
    """Yield systems with long rows, on a network where a product takes a little longer than a sum."""
    source = Seed.of(seed)
    columns = source.strata(250, 350, 3, "cost")
    for nth, ranks in enumerate(source.ranks(8, 56, 3, "cost")):
        shape = source.drawn(90, 120, "cost", nth), columns[nth]
        rate = 16 * shape[1] / (2 * _LATENCY_S * (_rounds(ranks) + 1))
        how: dict[str, Any] = {"on": f"star:{ranks},bw={rate:.0f}Bps,lat=1ms", "model": _MODEL}
        yield _case(ranks, *_system(source, shape, 0.6, "cost", nth), "random", charges=False, **how)


def _rounds(ranks: int) -> int:
    return math.ceil(math.log2(ranks))


def _steps(case: Case) -> int:
    return len(_norms(case)) - 1


def _chain(case: Case) -> float:
    return float((_steps(case) + 4) * (_rounds(case.ranks) + 2))


def _bytes(case: Case) -> float:
    columns = case.arguments[0][1].shape[1]
    return float((_steps(case) + 4) * (24 * columns + 300 * (_rounds(case.ranks) + 1)))


def _seconds(case: Case) -> float:
    return 1.25 * (_steps(case) + 3) * 2 * _LATENCY_S * (_rounds(case.ranks) + 2)


_BYTES = [Bound(what, _bytes, "(S + 4) (24 w + 300 (C + 1)) bytes") for what in ("told", "received")]
_CHAIN = Bound("chain", _chain, "(S + 4) (C + 2)")

ASSIGNMENT = Assignment(
    name="cg",
    title="Conjugate gradients with a hidden sum",
    function="solve",
    statement=_STATEMENT,
    checks=(
        Correct("right", "Right on 2, 3, 4 and 8 ranks", 2, _right, _oracle,
                "Each dot product is a sum over all ranks. Try the recurrences on one rank first."),
        Correct("any_number", "Any number of ranks", 1, _any_number, _oracle,
                "On one rank nothing is sent. Does every rank stop after the same step?"),
        Correct("kinds", "Any system: b = 0, no step, one column, many steps", 2, _kinds, _oracle,
                "Compare the norm with that of b before a step divides by anything."),
        Costs("volume", "A rank receives its neighbors' rows and sums", 1, _cost_cases, _oracle, _BYTES,
              "A product needs one row of each neighbor, a sum needs two numbers."),
        Costs("one_sum", "No two sums one after the other in a step", 2, _cost_cases, _oracle,
              [_CHAIN, *_BYTES],
              "Which dot products can be summed in one message, if w = A r is known?"),
        Costs("hidden", "The sum is hidden behind the product", 3, _cost_cases, _oracle,
              [_CHAIN, *_BYTES, Bound("seconds", _seconds, "1.25 (S + 3) times a product's 2 (C + 2) ms")],
              "Begin the sum with Iallreduce, compute a product that does not need it, then wait."),
    ),
)  # fmt: skip
