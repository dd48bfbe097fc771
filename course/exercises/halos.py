"""Exercises on halo exchange and one-sided communication."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labkit.jupyter.exercise import Exercise, Trap, choice, near

__all__ = ["EXERCISES"]


class _Tried(NamedTuple):
    """What an exchange did.

    Attributes
    ----------
    fails_at : tuple of int
        Numbers of ranks at which a halo was wrong, or the run failed.
    fault : str
        How it failed at first: "deadlock", "error" or "wrong halo".
    spread_s : float
        How long the rank at the far end of a ring of eight waited for one that was 1 s late.
    """

    fails_at: tuple[int, ...]
    fault: str
    spread_s: float


def _tried(exchange: Any) -> _Tried:
    from labkit.errors import DeadlockError, LabkitError
    from labkit.launch.run import run

    if not callable(exchange):
        raise TypeError(f"a function is asked for, got {type(exchange).__name__}")
    failing, faults, spread = [], [], 0.0
    for ranks in (3, 4, 5, 8):
        try:
            results = run(_ring, ranks, "star", args=(exchange,), timeout_s=20).results
        except LabkitError as error:
            failing.append(ranks)
            faults.append("deadlock" if isinstance(error, DeadlockError) else "error")
            continue
        if any(not is_right for is_right, _ in results):
            failing.append(ranks)
            faults.append("wrong halo")
        elif ranks == 8:
            spread = results[4][1]
    return _Tried(tuple(failing), faults[0] if faults else "", spread)


def _ring(comm: Any, exchange: Any) -> tuple[bool, float]:
    """Exchange with the ranks before and after this one, twice; rank 0 is late."""
    from labkit import MPI
    from labkit.program import context

    rank, size = comm.rank, comm.size
    left, right = (rank - 1) % size, (rank + 1) % size
    halo = np.full(2, -1.0)
    window = MPI.Win.Create(halo, 8, comm=comm)
    group = comm.Get_group().Incl(sorted({left, right}))
    is_right, began = True, MPI.Wtime()
    for turn in range(2):
        if rank == 0 and turn == 0:
            context.compute(seconds=1.0)
        mine = np.array([10.0 * rank + turn])
        exchange(window, group, [(mine, left, 1), (mine, right, 0)])
        is_right &= halo.tolist() == [10.0 * left + turn, 10.0 * right + turn]
        if turn == 0:
            took = MPI.Wtime() - began
    window.Free()
    return bool(is_right), took


EXERCISES = {
    "exposed": Exercise(
        "a function exchange(window, group, puts)",
        _tried,
        lambda tried: not tried.fails_at and tried.spread_s < 0.5,
        "every halo is right, and a late rank makes its neighbors wait, not everybody.",
        "try it in a program of your own, with 3, 4, 5 and 8 ranks: does it end, is the halo right, and may "
        "it be called again?",
        (
            Trap(
                lambda tried: not tried.fails_at,
                "every halo is right; but when rank 0 is late, the rank at the other end of the ring waits "
                "for it, too. Whom does a fence ask?",
            ),
            Trap(
                lambda tried: tried.fault == "deadlock",
                "the run does not end: a rank waits for a permission that no rank gives, or for a rank that "
                "does not say that it is through.",
            ),
            Trap(
                lambda tried: tried.fault == "wrong halo",
                "a halo is read before it has come. Which call shows that the others are through?",
            ),
        ),
    ),
    "behind": Exercise(
        "a number of µs",
        float,
        near(110, 0.01),
        "50 of the 80 µs pass while the inside is computed; the rim cannot begin before the other 30 are "
        "over.",
        "when does the exchange end, if it begins together with the inside? And what has to wait for it?",
        (
            Trap(near(160, 0.01), "that is one after the other: nothing is hidden."),
            Trap(near(80, 0.01), "what needs the halo before it can begin?"),
            Trap(near(130, 0.01), "that hides 30 µs. Which of the two computations may go on beside it?"),
        ),
    ),
    "counter": choice(
        "B",
        "reading and writing are two steps, and a shared lock lets others in between; Fetch_and_op is one. "
        "(An exclusive lock around both steps would do as well.)",
        "what happens if both read before either writes?",
        A="Flush completes an access. Does it keep the other rank from reading meanwhile?",
        C="Lock_all takes shared locks. Whom do they keep out?",
        D="a fence orders the epochs of all ranks. Do both then not read in the same one?",
    ),
}  # fmt: skip
