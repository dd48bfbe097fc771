"""Exercises on distributed Fourier transforms and transpositions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labkit.jupyter.exercise import Exercise, Trap, near, tried_on

__all__ = ["EXERCISES"]

#: numbers of ranks that a transposition is tried on, and the rows of a rank
_RANKS, _ROWS = (2, 3, 5, 1, 8), 3


class _Tried(NamedTuple):
    """How a transposition failed at first, and whether a rank received half of the matrix or more."""

    fault: str
    is_for_everybody: bool


def _tried(transpose: Any) -> _Tried:
    fault, received = tried_on(_RANKS, _transposed, transpose, "transpose")
    return _Tried(fault, received > 8 * (_RANKS[-1] * _ROWS) ** 2 / 2)


def _transposed(comm: Any, transpose: Any) -> str:
    """Return what is wrong with this rank's rows of the transposed matrix."""
    n = _ROWS * comm.size
    matrix = np.arange(float(n * n)).reshape(n, n)
    mine = slice(_ROWS * comm.rank, _ROWS * (comm.rank + 1))
    found = np.asarray(transpose(comm, matrix[mine].copy()))
    if found.shape != (_ROWS, n):
        return "shape"
    if np.array_equal(found, matrix.T[mine]):
        return ""
    pieces = np.split(found, comm.size, axis=1)
    if np.array_equal(np.concatenate([piece.T for piece in pieces], axis=1), matrix.T[mine]):
        return "not turned"
    return "wrong"


EXERCISES = {
    "most_slabs": Exercise(
        "a number of ranks",
        float,
        near(512),
        "a slab is one plane at least, and there are 512 planes.",
        "what is the smallest part of the array that a rank can have?",
        (
            Trap(near(512**2), "that many pencils are there. Is a pencil enough to transform two axes?"),
            Trap(near(512**3), "then a rank has one number. What can it transform?"),
            Trap(near(64), "how many planes does a rank have then? Could it have fewer?"),
        ),
    ),
    "pencil_messages": Exercise(
        "a number of messages",
        float,
        near(62),
        "two exchanges, each with the 31 others of a row or of a column of 32 ranks.",
        "how many ranks are there in a row of the grid, and in how many exchanges does a rank take part?",
        (
            Trap(near(1023), "that many messages has the exchange of slabs, among all ranks."),
            Trap(near(31), "that is one of the exchanges. How many axes have to become whole?"),
            Trap(near(64), "does a rank send a message to itself?"),
            Trap(near(93), "three axes are transformed. Is not one of them whole from the beginning?"),
        ),
    ),
    "crossover_moves": Exercise(
        "a number of ranks",
        float,
        near(160, 0.05),
        "messages of n³/p² numbers have to keep their size: p grows like the root of n³, by a factor of 8.",
        "at the crossover the messages of slabs have a certain size. How does their size depend on n and p?",
        (
            Trap(near(80, 0.01), "that is p in proportion to n. Is a message n/p numbers long?"),
            Trap(near(1280, 0.01), "that is p in proportion to n³. Into how many messages is a slab cut?"),
            Trap(near(320, 0.01), "that is p in proportion to n². How many numbers has the whole array?"),
            Trap(near(20, 0.01), "then the messages of the larger array are 64 times as long."),
        ),
    ),
    "transpose": Exercise(
        "a function transpose(comm, rows)",
        _tried,
        lambda tried: not tried.fault and not tried.is_for_everybody,
        "each block travels once, and is turned by itself.",
        "write down the matrix of 2 ranks with one row each, and what each rank has to have at the end.",
        (
            Trap(
                lambda tried: not tried.fault,
                "the rows are right, but a rank receives the whole matrix. Which part of it does it need?",
            ),
            Trap(
                lambda tried: tried.fault == "not turned",
                "the blocks are where they belong, but each still has its rows where its columns should be.",
            ),
            Trap(
                lambda tried: tried.fault == "shape",
                "every rank has as many rows of the transposed matrix as of the given one, just as long.",
            ),
            Trap(
                lambda tried: tried.fault == "wrong",
                "numbers are in wrong places. Which block goes to rank j, and where that from rank i?",
            ),
            Trap(
                lambda tried: tried.fault == "deadlock",
                "the run does not end: do all ranks send and receive in an order that fits together?",
            ),
        ),
    ),
}
