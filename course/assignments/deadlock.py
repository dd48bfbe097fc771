"""Assignment: a program with three deadlocks, to be repaired without making its ranks wait for each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from labkit.grading.assignment import Assignment
from labkit.grading.checks import Bound, Correct, Costs
from labkit.grading.seeds import Seed
from labkit.grading.trial import Case, instead_of, shown, type_and_shape

__all__ = ["ASSIGNMENT"]

_STATEMENT = """\
Repair smooth(comm, block, tolerance, most), which hangs for three reasons. The rows of a matrix lie on
the ranks, block after block, at least one row on each; the row above the first one is the last one of
all (a ring). In a step every row becomes (above + 2 row + below) / 4, all rows at once. After a step in
which no value of any rank has changed by as much as `tolerance`, all ranks stop; at the latest after
`most` steps. Every rank returns its block and the number of steps. It must end on every number of
ranks, on machines that buffer no message at all, and the ranks must exchange their rows at the same
time, not one after another. Numbers of ranks are drawn anew for every grading, from 1 to 24."""

_UNBUFFERED = "lab,detached_below_bytes=0"
#: of the check of times: so many numbers take a millisecond, start-ups next to nothing
_BYTES_PER_S = 10e6


def _blocks(seed: int, ranks: int, width: int, label: str, nth: int | None = None) -> list[Any]:
    """Return blocks of random values, some of them smooth: a rank that looks at its own rows stops too early.

    In turn (`nth`) the ranks of either parity and either half are the smooth ones, so that it does not do
    to ask some of the ranks.
    """
    source = Seed.of(seed)
    turn = 0 if nth is None else nth + source.drawn(0, 3, "smooth", label)
    own = []
    for rank in range(ranks):
        rows = 1 + source.number("rows", ranks, rank, label) % 3
        # on two ranks both neighbors are one: who swaps its first and its last row must be seen; and two
        # rows alone are equal after a step, all that follows is rounding
        rows = max({1: 3, 2: 2}.get(ranks, 1), rows)
        values = source.array(rows * width, "float64", ranks, rank, width, label).reshape(rows, width)
        is_smooth_half = nth is not None and (2 * rank < ranks) == bool(turn % 2)
        own.append(values * (1e-3 if (rank + turn // 2) % 2 else 1.0) * (1e-3 if is_smooth_half else 1.0))
    return own


def _case(
    seed: int, ranks: int, width: int, most: int, words: str, nth: int | None = None, **how: Any
) -> Case:
    """Return a case with so many steps at most; the `nth` of those in which the ranks stop before that."""
    blocks = _blocks(seed, ranks, width, words, nth)
    tolerance = 0.0
    if nth is not None:
        tolerance = _tolerance(Seed.of(seed), blocks, most, nth, words)
    arguments = [(block, tolerance, most) for block in blocks]
    rows = sum(len(block) for block in blocks)
    inputs = [block.round(3) for block in blocks] if rows * width <= 12 else None
    until = "until nothing changes much" if nth is not None else f"{most} steps"
    return Case(ranks, arguments, f"{rows} rows of {width}, {until}{words}", inputs, _needs, how=how)


def _tolerance(source: Seed, blocks: list[Any], most: int, nth: int, label: str) -> float:
    """Return a tolerance with which the ranks stop after a step that is drawn.

    Nobody must know from `most` which one: even and odd ones take turns. Nor may it do to ask some of the
    ranks: in turn it is a rank of either parity and either half that goes on changing for longest.
    """
    by_rank = _changes(blocks, most)
    changes, ranks = by_rank.max(1), np.arange(len(blocks))
    turn = nth + source.drawn(0, 3, "smooth", label)
    is_asked = (ranks % 2 == turn // 2 % 2) & ((2 * ranks < len(blocks)) != bool(turn % 2))
    others = by_rank[:, ~is_asked].max(1, initial=0.0)
    parity = (nth + source.drawn(0, 1, "parity", label)) % 2
    is_shared = others[: most - 1] > 0.98 * changes[: most - 1]  # by ranks that are not asked
    lasts = source.shuffled(range(1, most), "last", len(blocks), label)
    is_flat = changes < 1e-5 * changes[0]  # rounding would decide, and wrong rows would look right
    last = min(lasts, key=lambda last: (is_flat[last], is_shared[last - 1], last % 2 != parity))
    after = changes[last] if is_shared[last - 1] else max(changes[last], others[last - 1])
    return math.sqrt(changes[last - 1] * after)  # between two steps, far from both


def _changes(blocks: list[Any], most: int) -> Any:
    """Return the largest change of each step (row) on each rank (column)."""
    rows, found = np.concatenate(blocks), []
    begins = np.cumsum([0, *(len(block) for block in blocks[:-1])])
    for _ in range(most):
        new = (np.roll(rows, 1, 0) + 2 * rows + np.roll(rows, -1, 0)) / 4
        found.append(np.maximum.reduceat(np.abs(new - rows).max(1), begins))
        rows = new
    return np.array(found)


def _key(blocks: list[Any]) -> bytes:
    return b"".join(block.tobytes() for block in blocks)


@lru_cache(maxsize=32)
def _smoothed(values: bytes, width: int, tolerance: float, most: int) -> tuple[Any, int, list[float]]:
    """Return the whole matrix, the steps, and the largest change of each, by a sequential program."""
    rows = np.frombuffer(values).reshape(-1, width)
    changes: list[float] = []
    for _ in range(most):
        new = (np.roll(rows, 1, 0) + 2 * rows + np.roll(rows, -1, 0)) / 4
        changes.append(float(np.abs(new - rows).max()))
        rows = new
        if changes[-1] < tolerance:
            break
    return rows, len(changes), changes


def _needs(case: Case, results: list[Any]) -> list[int]:
    """Two rows a step, or all that others have, or the own block, which somebody else may have computed."""
    blocks = [own[0] for own in case.arguments]
    steps = int(results[0][1])  # of whatever width it was returned
    row, total = blocks[0][0].nbytes, sum(block.nbytes for block in blocks)
    most = [0, *(block.nbytes for block in blocks[1:])]  # whoever computes for all has all of the blocks
    if steps and case.ranks > 1:
        most[0] = min(2 * steps * row, total - blocks[0].nbytes)
    return [min(2 * steps * row, total - block.nbytes, n) for block, n in zip(blocks, most, strict=True)]


def _oracle(case: Case, results: list[Any]) -> str | None:
    blocks, (_, tolerance, most) = [own[0] for own in case.arguments], case.arguments[0]
    wanted, steps, _ = _smoothed(_key(blocks), blocks[0].shape[1], tolerance, most)
    begin = 0
    for rank, found in enumerate(results):
        own = wanted[begin : begin + len(blocks[rank])]
        begin += len(own)
        if not isinstance(found, tuple | list) or len(found) != 2:
            return f"rank {rank} returned {shown(found)}, not its block and the number of steps"
        block, count = found
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count != steps:
            return f"rank {rank} returned {shown(count)} as the number of steps, expected {steps}"
        if not isinstance(block, np.ndarray) or block.shape != own.shape or block.dtype.kind != "f":
            return (
                f"rank {rank} returned {type_and_shape(block)} as its block, expected floating-point numbers "
                f"of shape {own.shape}"
            )
        wrong = ~np.isclose(block, own, rtol=1e-9, atol=1e-12)
        if wrong.any():
            return f"rank {rank} returned {instead_of(block, own, wrong)}"
    return None


def _short(seed: int) -> Iterator[Case]:
    for ranks in (3, 4, 8):
        yield _case(seed, ranks, 2, 3, "")


def _long(seed: int) -> Iterator[Case]:
    for ranks in (3, 4, 8):
        yield _case(seed, ranks, 2, 3, ", no message is buffered", model=_UNBUFFERED)
    yield _case(seed, 5, Seed.of(seed).drawn(8500, 12000, "long"), 2, " (rendezvous messages)")


def _stop(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    for nth, ranks in enumerate((3, 4, *source.ranks(5, 24, 3, "stop"))):
        yield _case(seed, ranks, source.drawn(2, 6, "stop", ranks), _steps(source, ranks), "", nth)


def _any_number(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    for nth, ranks in enumerate((1, 2, 3, *source.ranks(5, 24, 3, "any"))):
        how: dict[str, Any] = {"model": _UNBUFFERED}
        most = _steps(source, ranks)
        yield _case(seed, ranks, 3, most, ", no message is buffered", nth, **how)


def _steps(source: Seed, ranks: int) -> int:
    return source.drawn(12, 30, "most", ranks)


def _cost_cases(seed: int) -> Iterator[Case]:
    """Yield cases in which nobody may stop early: a wrong rule to stop costs its own points only."""
    source, count = Seed.of(seed), 6
    widths = source.strata(900, 1800, count, "width")
    may_stop = source.shuffled([False, *[True] * (count - 1)], "tolerance")  # `most` decides at least once
    for nth, ranks in enumerate(source.ranks(6, 24, count, "cost")):
        machine = f"star:{ranks},bw=10MBps,lat=1us"
        how: dict[str, Any] = {"on": machine, "model": "raw,detached_below_bytes=0", "charges": False}
        width, most = widths[nth], source.drawn(4, 7, "most", nth)
        case = _case(seed, ranks, width, most, " on a slow machine, no message is buffered", **how)
        if may_stop[nth]:
            tolerance = _changes([own[0] for own in case.arguments], most).min() / 2
            case = replace(case, arguments=[(block, tolerance, most) for block, _, _ in case.arguments])
        yield case


def _volume_cases(seed: int) -> Iterator[Case]:
    """Yield the cases of costs, and those of results in which nobody may stop early: every run counts."""
    yield from _cost_cases(seed)
    yield from _short(seed)
    yield from _long(seed)


def _received(case: Case) -> float:
    """Two rows a step; room for who agrees on the change by a message from each rank, of objects."""
    block, _, _ = case.arguments[0]
    return float((_steps_of(case) + 1) * (2 * block[0].nbytes + 400 + 200 * case.ranks))


def _seconds(case: Case) -> float:
    """The time of eight rows a step."""
    return float(8 * case.arguments[0][0][0].nbytes / _BYTES_PER_S * _steps_of(case))


def _steps_of(case: Case) -> int:
    blocks, (_, tolerance, most) = [own[0] for own in case.arguments], case.arguments[0]
    return _smoothed(_key(blocks), blocks[0].shape[1], tolerance, most)[1]


ASSIGNMENT = Assignment(
    name="deadlock",
    title="Repair of a program that hangs",
    function="smooth",
    statement=_STATEMENT,
    checks=(
        Correct("short", "Right with short rows on 3, 4 and 8 ranks", 2, _short, _oracle,
                "Write down for every receive which send it waits for: source and tag."),
        Correct("long", "Ends where messages are not buffered", 2, _long, _oracle,
                "A send may wait for its receive. Who receives while everybody sends?"),
        Correct("stop", "All ranks stop after the same step", 2, _stop, _oracle,
                "A rank that stops sends nothing any more. Who is waiting for it?"),
        Correct("any_number", "Any number of ranks, 1 and 2 included", 2, _any_number, _oracle,
                "On two ranks both neighbors are the same rank; on one it is the rank itself."),
        Costs("volume", "A rank receives its neighbors' rows, and no more", 1, _volume_cases, _oracle,
              [Bound("received", _received, "two rows, and 400 + 200 p bytes, a step and one step more")],
              "No rank needs other rows than those next to its own."),
        Costs("together", "All ranks exchange their rows at the same time", 2, _cost_cases, _oracle,
              [Bound("seconds", _seconds, "the time of 8 rows a step")],
              "If one rank receives first and all others send first, how long does the last one wait?"),
    ),
)  # fmt: skip
