"""Assignment: a broadcast on a given torus, in less than a given time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.grading.assignment import Assignment
from labkit.grading.checks import Bound, Correct, Costs, everybody_has_it
from labkit.grading.seeds import Seed
from labkit.grading.trial import Case

__all__ = ["ASSIGNMENT"]

#: the machine, and what is broadcast on it
_TORUS, _SIDE, _MIB = "torus:4x4x4,bw=100MBps,lat=1us", 4, 1 << 20
#: simulated times: of any tree of whole messages, of the task, and of trees of neighbors that use many links
_TREE_S, _TASK_S, _BEST_S = 0.200, 0.060, 0.020

_STATEMENT = """\
Write torus_broadcast(comm, data): rank 0 has a NumPy array `data`, the others are given None; every
rank returns an array with the same shape, dtype and values. Use messages only (send, recv, isend,
irecv, sendrecv and their upper-case spellings), no collective. Any number of ranks, any length, also 0.
On torus:4x4x4,bw=100MBps,lat=1us, where rank x + 4 y + 16 z is the node (x, y, z), 1 MiB is to be at
all 64 ranks after at most 60 ms of simulated time; half of the points for the time are given for 200
ms. A message of 1 MiB takes 10.8 ms on an idle link. The data are between 1 and 1.1 MiB, with as much
time for each byte. Their length and type are drawn anew for every grading, as are other numbers of
ranks, from 1 to 40."""


def _case(ranks: int, data: Any, words: str, **how: Any) -> Case:
    arguments = [(data if rank == 0 else None,) for rank in range(ranks)]
    inputs = [own[0] for own in arguments] if data.nbytes < 200 else None
    return Case(ranks, arguments, words, inputs, _needs, origin=0, how=how)


def _needs(case: Case, results: list[Any]) -> list[int]:
    return [0, *(result.nbytes for result in results[1:])]


def _array(seed: int, n: int, dtype: str, *label: object) -> Any:
    return Seed.of(seed).array(n, dtype, *label)


def _right(seed: int) -> Iterator[Case]:
    for ranks in (
        1,
        2,
        3,
        4,
        8,
        *Seed.of(seed).ranks(5, 20, 3, "any"),
        *Seed.of(seed).ranks(21, 40, 1, "many"),
    ):
        yield _case(ranks, _array(seed, 5, "int64", ranks), "5 integers")


def _any_data(seed: int) -> Iterator[Case]:
    yield _case(3, _array(seed, 0, "float64"), "an empty array")
    yield _case(5, _array(seed, 1, "int32"), "1 integer")
    yield _case(4, np.array([np.nan, -np.inf, -0.0, 5e-324, 1.5]), "NaN, infinity, -0.0 and a subnormal")
    yield _case(6, _array(seed, 12, "uint8").reshape(3, 4), "a matrix of bytes")
    yield _case(5, _array(seed, 2, "uint8", "flags") > 127, "2 booleans")
    yield _case(
        7, _array(seed, 12_001, "float64"), "12001 floats, not buffered", model="lab,detached_below_bytes=0"
    )


def _timed(seed: int) -> Iterator[Case]:
    """Yield a case of each type, and of each quarter of the lengths: no type and no interval is left out."""
    source = Seed.of(seed)
    types = source.shuffled(("int64", "float64", "int32", "uint8"), "timed")
    for dtype, n_bytes in zip(
        map(np.dtype, types), source.strata(_MIB, 11 * _MIB // 10, 4, "timed"), strict=True
    ):
        n = n_bytes // dtype.itemsize
        data = _array(seed, n, dtype.str, "timed")
        words = f"{data.nbytes / _MIB:.2f} MiB, {dtype}, on {_TORUS}"
        yield _case(_SIDE**3, data, words, on=_TORUS, charges=False)


def _within(seconds: float) -> list[Bound]:
    return [
        Bound(
            "seconds",
            lambda case: seconds * case.arguments[0][0].nbytes / _MIB,
            f"{1e3 * seconds:g} ms for each MiB",
        )
    ]


ASSIGNMENT = Assignment(
    name="torus_broadcast",
    title="A broadcast that beats a given time on a torus",
    function="torus_broadcast",
    statement=_STATEMENT,
    only_messages=True,
    checks=(
        Correct("right", "Right for any number of ranks", 3, _right, everybody_has_it,
                "Does a rank send to, or wait for, a rank that does not exist?"),
        Correct("any_data", "Right for any data", 2, _any_data, everybody_has_it,
                "How many pieces are there when the data are shorter than that? Are shape and dtype known?"),
        Costs("tree", "1 MiB on the torus within 200 ms", 3, _timed, everybody_has_it, _within(_TREE_S),
              "Whoever has the data can pass it on: no rank need send more than six whole messages."),
        Costs("pieces", "1 MiB on the torus within 60 ms", 3, _timed, everybody_has_it, _within(_TASK_S),
              "A rank need not have the last byte before it passes on the first one: cut it in pieces."),
        Costs("neighbors", "1 MiB on the torus within 20 ms", 2, _timed, everybody_has_it, _within(_BEST_S),
              "Which links does a message take? Messages between neighbors never share one.", is_bonus=True),
    ),
)  # fmt: skip
