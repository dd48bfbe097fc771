"""Exercises on promises kept by tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labkit.errors import LabkitError
from labkit.jupyter.exercise import Exercise, Trap, choice
from labkit.launch.run import run
from labkit.study import sweep

__all__ = ["EXERCISES"]

_RANKS = (1, 2, 3, 4, 5, 8, 13)
_GROWING = (8, 16, 32, 64, 128)
_LIMIT_S = 20.0


@dataclass(frozen=True)
class _Tried:
    """What a reader's function does.

    Attributes
    ----------
    fails_at : tuple of int
        The numbers of ranks at which some rank does not get the largest number.
    knows : bool
        Whether rank 0 got it everywhere.
    borrowed : bool
        Whether it called a collective.
    keeps : bool
        Whether it keeps the promise.
    """

    fails_at: tuple[int, ...]
    knows: bool
    borrowed: bool
    keeps: bool


def _tried(function: Any) -> _Tried:
    if not callable(function):
        raise TypeError(function)

    def program(comm: Any) -> Any:
        return function(comm, (7 * comm.rank + 3) % comm.size)

    failing, knows, borrowed = [], True, False
    for ranks in _RANKS:
        try:
            ended = run(program, ranks, "star", timeout_s=_LIMIT_S)
        except LabkitError:
            failing.append(ranks)
            continue
        borrowed = borrowed or bool(ended.collectives)
        wanted = max((7 * rank + 3) % ranks for rank in range(ranks))
        if list(ended.results) != [wanted] * ranks:
            failing.append(ranks)
            knows = knows and ended.results[0] == wanted
    keeps = not failing and bool(
        sweep(program, _GROWING, "star", progress=False).expect("log p", deviation="log^0.5 p")
    )
    return _Tried(tuple(failing), knows, borrowed, keeps)


def _is_power(ranks: int) -> bool:
    return ranks & (ranks - 1) == 0


EXERCISES = {
    "largest": Exercise(
        "a function largest(comm, x)",
        _tried,
        lambda tried: not tried.fails_at and tried.keeps and not tried.borrowed,
        "every rank has the largest number, at any number of ranks, after a number of rounds as log p.",
        "try lk.run(lambda comm: largest(comm, comm.rank), ranks, 'star') with 1, 2, 3, 5 and 8 ranks: is "
        "the result right, and does it end?",
        (
            Trap(
                lambda tried: tried.borrowed,
                "MPI has a collective for that, and it does it well. Here you are to find out how.",
            ),
            Trap(
                lambda tried: not tried.fails_at,
                "right at every number of ranks, and it grows faster than log p. Who works, and who only "
                "waits, while rank 0 is busy?",
            ),
            Trap(
                lambda tried: not any(_is_power(ranks) for ranks in tried.fails_at),
                "right for 1, 2, 4 and 8 ranks, not for 3. Whose partner does not exist then?",
            ),
            Trap(
                lambda tried: tried.knows and 1 not in tried.fails_at,
                "rank 0 knows the largest number, and others do not. Everybody is to know it.",
            ),
        ),
    ),
    "monday": choice(
        "B",
        "one thing at a time: if Friday's program passes with today's labkit, the change is yours; if it "
        "fails, the change is labkit's, and the baseline may be renewed with a note.",
        "two things have changed since Friday. How do you find out which of them it was?",
        A="the test would pass. If the fault is yours, what does it still protect?",
        C="which programs would then still fail the test?",
        D="simulated times are the same on every run, to the last bit. Can it be flaky?",
    ),
}  # fmt: skip
