"""Assignment: matrix multiplication by SUMMA on a rectangular grid of ranks, for matrices of any size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from labkit.grading.assignment import Assignment
from labkit.grading.checks import Bound, Correct, Costs
from labkit.grading.seeds import Seed
from labkit.grading.trial import Case, instead_of, type_and_shape

__all__ = ["ASSIGNMENT"]

_STATEMENT = """\
Write multiply(comm, grid, shape, a, b), which computes C = A B. grid is (R, S) with R S ranks: rank r is in
row r // S and column r % S. shape is (m, k, n): A is m x k, B is k x n. Rows and columns are cut into as
many parts as there are rows and columns of the grid: part i of q parts of a length l is from i l // q to
(i + 1) l // q; it may be empty. The rank in row i and column j has part i of A's rows and part j of A's
columns in `a`, part i of B's rows and part j of B's columns in `b`; so k is cut in S parts for A and in R
parts for B. It returns part i of C's rows and part j of C's columns, of the type that NumPy's product has.
A rank receives and sends no more bytes than 1.5 times its rows of A and its columns of B, and 300 for
each rank and each part of k. On a network of 10 MB/s that takes no longer than ceil(log2 max(R, S)) + 2
times these bytes. Grids, sizes and types are drawn anew for every grading, ranks from 1 to 64."""

_KINDS = ("float64", "complex128", "float32")
#: of the machine on which the time is judged
_BYTES_PER_S = 10e6
_Grid = tuple[int, int]


def _edges(length: int, parts: int) -> list[int]:
    return [i * length // parts for i in range(parts + 1)]


def _cut(whole: Any, grid: _Grid) -> list[Any]:
    """Return the blocks of a matrix, in the order of ranks."""
    rows, columns = (_edges(n, parts) for n, parts in zip(whole.shape, grid, strict=True))
    return [
        np.ascontiguousarray(whole[top:bottom, left:right])
        for (top, bottom), (left, right) in itertools.product(
            itertools.pairwise(rows), itertools.pairwise(columns)
        )
    ]


def _matrix(source: Seed, shape: tuple[int, int], dtype: str, *label: object) -> Any:
    """Return random numbers from -1 to 1, of as many bits as the type has; of integers small ones."""
    n = shape[0] * shape[1]
    if np.dtype(dtype).kind == "i":
        return (source.array(n, "uint8", *label) % 19).astype(dtype).reshape(shape) - 9
    values = 2 * source.array(n, "float64", *label) - 1
    if np.dtype(dtype).kind == "c":
        values = values + 1j * (2 * source.array(n, "float64", "imaginary", *label) - 1)
    return values.astype(dtype).reshape(shape)


def _case(
    seed: int, grid: _Grid, shape: Sequence[int], words: str = "", dtypes: tuple[str, str] | str = "float64",
    **how: Any,
) -> Case:  # fmt: skip
    m, k, n = shape
    kinds = (dtypes, dtypes) if isinstance(dtypes, str) else dtypes
    source = Seed.of(seed)
    a = _matrix(source, (m, k), kinds[0], "A", grid, tuple(shape), words)
    b = _matrix(source, (k, n), kinds[1], "B", grid, tuple(shape), words)
    blocks = list(zip(_cut(a, grid), _cut(b, grid), strict=True))
    size = f"grid {grid[0]} x {grid[1]}, {m} x {k} times {k} x {n}"
    said = f"{size}, {' and '.join(dict.fromkeys(kinds))}{words}"
    inputs = blocks if m * k + k * n <= 40 else None
    arguments = [(grid, tuple(shape), *pair) for pair in blocks]
    return Case(grid[0] * grid[1], arguments, said, inputs, _needs, how=how)


def _needs(case: Case, results: list[Any]) -> list[int]:
    """At least a byte for each number of a block, if its rank was not given all that this depends on."""
    found = []
    grid, (_, k, _), *_ = case.arguments[0]
    for rank, (_, _, a, b) in enumerate(case.arguments):
        rows, columns = results[rank].shape
        others = rows * k - a.size + k * columns - b.size
        found.append(min(others, rows * columns) if k >= 2 * max(grid) else 0)
    return found


def _oracle(case: Case, results: list[Any]) -> str | None:
    grid, (_, k, _), *_ = case.arguments[0]
    blocks_a, blocks_b = ([own[which] for own in case.arguments] for which in (2, 3))
    a, b = (
        np.block([blocks[row * grid[1] : (row + 1) * grid[1]] for row in range(grid[0])])
        for blocks in (blocks_a, blocks_b)
    )
    whole = a @ b
    bound = np.abs(a) @ np.abs(b)
    for rank, (found, wanted, most) in enumerate(
        zip(results, _cut(whole, grid), _cut(bound, grid), strict=True)
    ):
        place = f"rank {rank} (row {rank // grid[1]}, column {rank % grid[1]})"
        if not isinstance(found, np.ndarray) or found.shape != wanted.shape:
            return f"{place} returned {type_and_shape(found)}, expected an array of shape {wanted.shape}"
        if found.dtype != wanted.dtype:
            return f"{place} returned {found.dtype}, expected {wanted.dtype}"
        epsilon = np.finfo(wanted.dtype).eps if wanted.dtype.kind in "fc" else 0.0
        wrong = ~(np.abs(found - wanted) <= 2 * (k + 4) * epsilon * most)
        if wrong.any():
            return f"{place} returned {instead_of(found, wanted, wrong)}"
    return None


def _right(seed: int) -> Iterator[Case]:
    yield _case(seed, (2, 2), (2, 4, 2))
    for q, n in ((2, 6), (3, 6), (4, 16)):
        yield _case(seed, (q, q), (n, n, n))


def _drawn_grids(source: Seed, least: int, most: int, count: int, *label: object) -> list[_Grid]:
    """Return grids of numbers of ranks that are drawn: flat, upright and nearly square ones in turn."""
    found = []
    turn = source.drawn(0, 2, "turn", *label)
    for nth, ranks in enumerate(source.ranks(least, most, count, *label)):
        sides = [q for q in range(2, ranks) if ranks // q >= 2]
        short = sides[0] if sides and (nth + turn) % 3 else max(q for q in range(1, 9) if q * q <= ranks)
        long = ranks // short
        found.append((short, long) if (nth + turn) % 3 < 2 else (long, short))
    return found


def _any_number(seed: int) -> Iterator[Case]:
    """Yield grids of any shape, and sizes that all parts divide."""
    source = Seed.of(seed)
    grids = [(1, 1), (1, 2), (3, 1), (2, 3), (4, 2)]
    grids += [*_drawn_grids(source, 9, 32, 4, "any"), *_drawn_grids(source, 40, 64, 1, "many")]
    for rows, columns in grids:
        k = math.lcm(rows, columns)
        yield _case(seed, (rows, columns), (2 * rows, k * max(1, 24 // k), 2 * columns))


def _any_size(seed: int) -> Iterator[Case]:
    """Yield sizes that no part divides, of all three dimensions, also less than one for each rank."""
    source = Seed.of(seed)
    yield _case(seed, (2, 2), (3, 3, 3))
    yield _case(seed, (2, 3), (3, 5, 4))
    yield _case(seed, (3, 2), (1, 1, 1), ", one number")
    yield _case(seed, (2, 3), (5, 0, 4), ", nothing to add up")
    yield _case(seed, (2, 2), (0, 3, 5), ", no rows")
    for nth, grid in enumerate(_drawn_grids(source, 5, 30, 5, "size")):
        m, k, n = (source.drawn(1, 40, "size", nth, which) for which in range(3))
        yield _case(seed, grid, (m, k, n))
    (grid,) = _drawn_grids(source, 12, 30, 1, "few")
    yield _case(seed, grid, (9, source.drawn(2, max(grid) - 1, "few"), 7), ", fewer columns of A than ranks")


def _any_type(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    pairs: list[tuple[str, str] | str] = [*_KINDS, "int64"]
    pairs += [("int32", "float64"), ("float32", "complex128"), ("int64", "float32")]
    for nth, dtypes in enumerate(pairs):
        grid = source.chosen(((2, 2), (2, 3), (3, 2), (3, 3)), "type", nth)
        yield _case(seed, grid, [source.drawn(6, 20, "type", nth, which) for which in range(3)], "", dtypes)


def _cost_cases(seed: int) -> Iterator[Case]:
    """Yield grids of each kind with large matrices of each type, on a network of 10 MB/s.

    All of A and B is more than a rank may receive: both sides of the grids are at least 3, or one is 2
    and the other one is long, and no matrix is much smaller than the other.
    """
    source = Seed.of(seed)
    kinds = source.shuffled((*_KINDS, *_KINDS), "cost")
    turn = source.drawn(0, 1, "turn")
    drawn = [(2, source.drawn(24, 32, "flat"))]
    for nth, ranks in enumerate(source.ranks(9, 64, len(kinds) - 1, "cost")):
        short = source.drawn(3, max(math.isqrt(ranks), 3), "short", nth)
        drawn.append((short, ranks // short))
    sizes = source.strata(150, 300, len(drawn), "cost")
    for nth, (pair, dtype) in enumerate(zip(drawn, kinds, strict=True)):
        grid = pair if nth % 2 == turn else pair[::-1]
        base = sizes[nth]
        m, n = base + source.drawn(0, 60, "m", nth), base + source.drawn(0, 60, "n", nth)
        k = source.drawn(140, 260, "k", nth)
        how: dict[str, Any] = {"on": f"star:{grid[0] * grid[1]},bw=10MBps,lat=1us", "model": "raw"}
        yield _case(seed, grid, (m, k, n), "", dtype, charges=False, **how)


def _least(case: Case) -> float:
    """Return the bytes of the largest rows of A and columns of B of a rank."""
    (rows, columns), (m, k, n), a, b = case.arguments[0]
    return float(-(-m // rows) * k * a.itemsize + k * -(-n // columns) * b.itemsize)


def _bytes(case: Case) -> float:
    rows, columns = case.arguments[0][0]
    return float(1.5 * _least(case) + 300 * (case.ranks + rows + columns))


def _seconds(case: Case) -> float:
    """Return the time of trees that pass the panels on one after another."""
    return (math.ceil(math.log2(max(case.arguments[0][0]))) + 2) * _bytes(case) / _BYTES_PER_S


_WORDS = "1.5 (rows of A + columns of B) and 300 (p + R + S) bytes"
_TOLD, _RECEIVED = (Bound(what, _bytes, _WORDS) for what in ("told", "received"))

ASSIGNMENT = Assignment(
    name="summa",
    title="Matrix multiplication by SUMMA",
    function="multiply",
    statement=_STATEMENT,
    checks=(
        Correct("right", "Right on square grids", 2, _right, _oracle,
                "In step l the ranks of column l of the grid send their block of A along their rows, those "
                "of row l their block of B along their columns."),
        Correct("any_number", "Any grid", 2, _any_number, _oracle,
                "k is cut in S parts for A and in R parts for B: a panel must lie in one part of each."),
        Correct("any_size", "Sizes that the parts do not divide, also empty parts", 2, _any_size, _oracle,
                "All edges of the parts of A's columns and of B's rows, sorted, are the edges of panels."),
        Correct("any_type", "Any types of numbers", 1, _any_type, _oracle,
                "np.result_type(a, b) is the type of the product; panels have the type of their matrix."),
        Costs("volume", "A rank receives its rows of A and its columns of B", 2, _cost_cases, _oracle,
              [_TOLD, _RECEIVED],
              "A rank needs the rows of A that its block of C is in, and the columns of B: no others."),
        Costs("time", "Ranks of all rows and columns work at the same time", 2, _cost_cases, _oracle,
              [_TOLD, _RECEIVED, Bound("sent", _bytes, _WORDS),
               Bound("seconds", _seconds, "(ceil(log2 max(R, S)) + 2) times these bytes at 10 MB/s")],
              "Does one rank send to many others, one after another? Does a row wait for the row above?"),
    ),
)  # fmt: skip
