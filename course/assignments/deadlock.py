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
from labkit.grading.trial import Case, shown

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


def _blocks(seed: int, ranks: int, width: int, *label: object) -> list[Any]:
    source = Seed.of(seed)
    own = []
    for rank in range(ranks):
        rows = 1 + source.number("rows", ranks, rank, *label) % 3
        if ranks == 2:  # both neighbours are one rank: who swaps its first and its last row must be seen
            rows = max(2, rows)
        values = source.array(rows * width, "float64", ranks, rank, width, *label).reshape(rows, width)
        # some are smooth at once: who looks at its own rows alone stops too early
        own.append(values * (1e-3 if rank % 2 else 1.0))
    return own


def _case(seed: int, ranks: int, width: int, most: int, words: str, stops: bool = False, **how: Any) -> Case:
    blocks = _blocks(seed, ranks, width, words)
    tolerance = 0.0
    if stops:
        changes = _smoothed(_key(blocks), width, 0.0, most)[2]
        # drawn: nobody must know from `most` after which step the ranks stop
        last = Seed.of(seed).drawn(1, most - 1, "last", ranks, width, most, words)
        tolerance = math.sqrt(changes[last - 1] * changes[last])  # between two steps, far from both
    arguments = [(block, tolerance, most) for block in blocks]
    rows = sum(len(block) for block in blocks)
    inputs = [block.round(3) for block in blocks] if rows * width <= 12 else None
    until = "until nothing changes much" if stops else f"{most} steps"
    return Case(ranks, arguments, f"{rows} rows of {width}, {until}{words}", inputs, _needs, how=how)


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
                f"rank {rank} returned {shown(block)} as its block, not {own.shape[0]} rows of {own.shape[1]}"
            )
        if not np.allclose(block, own, rtol=1e-9, atol=1e-12):
            return f"rank {rank} returned {shown(block)}, expected {shown(own)}"
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
    for ranks in (3, 4, *source.ranks(5, 24, 2, "stop")):
        yield _case(seed, ranks, source.drawn(2, 6, "stop", ranks), _steps(source, ranks), "", stops=True)


def _any_number(seed: int) -> Iterator[Case]:
    source = Seed.of(seed)
    for ranks in (1, 2, 3, *source.ranks(5, 24, 2, "any")):
        how: dict[str, Any] = {"model": _UNBUFFERED}
        most = _steps(source, ranks)
        yield _case(seed, ranks, 3, most, ", no message is buffered", stops=True, **how)


def _steps(source: Seed, ranks: int) -> int:
    return source.drawn(12, 30, "most", ranks)


def _cost_cases(seed: int) -> Iterator[Case]:
    """Yield cases in which nobody may stop early: a wrong rule to stop costs its own points only."""
    source = Seed.of(seed)
    for nth, ranks in enumerate(source.ranks(9, 24, 3, "cost")):
        machine = f"star:{ranks},bw=10MBps,lat=1us"
        how: dict[str, Any] = {"on": machine, "model": "raw,detached_below_bytes=0", "charges": False}
        width, most = source.drawn(900, 1800, "width", nth), source.drawn(4, 7, "most", nth)
        case = _case(seed, ranks, width, most, " on a slow machine, no message is buffered", **how)
        if source.drawn(0, 3, "tolerance", nth):
            tolerance = _least_change([own[0] for own in case.arguments], most) / 2
            case = replace(case, arguments=[(block, tolerance, most) for block, _, _ in case.arguments])
        yield case


def _least_change(blocks: list[Any], most: int) -> float:
    """Return the smallest change that any rank sees in its own rows in any step."""
    rows, least = np.concatenate(blocks), np.inf
    begins = np.cumsum([0, *(len(block) for block in blocks[:-1])])
    for _ in range(most):
        new = (np.roll(rows, 1, 0) + 2 * rows + np.roll(rows, -1, 0)) / 4
        least = min(least, float(np.maximum.reduceat(np.abs(new - rows).max(1), begins).min()))
        rows = new
    return least


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
                "On two ranks both neighbours are the same rank; on one it is the rank itself."),
        Costs("volume", "A rank receives its neighbours' rows, and no more", 1, _volume_cases, _oracle,
              [Bound("received", _received, "two rows, and 400 + 200 p bytes, a step and one step more")],
              "Nobody needs other rows than those beside its own."),
        Costs("together", "All ranks exchange their rows at the same time", 2, _cost_cases, _oracle,
              [Bound("seconds", _seconds, "the time of 8 rows a step")],
              "If one rank receives first and all others send first, how long does the last one wait?"),
    ),
)  # fmt: skip
