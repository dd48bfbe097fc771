"""Exercises on linear solvers: sums over all ranks, hidden and not, and blocks that are finished."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.jupyter.exercise import Exercise, Trap, near

__all__ = ["EXERCISES"]

#: numbers of ranks that the dot products are tried on
_RANKS = (2, 1, 3, 8)


def _tried(two_dots: Any) -> str:
    """Return how the dot products failed at first."""
    from labkit.errors import DeadlockError, LabkitError
    from labkit.launch.run import run

    if not callable(two_dots):
        raise TypeError(f"two_dots must be a function, got {type(two_dots).__name__}")
    for ranks in _RANKS:
        try:
            done = run(_dotted, ranks, "star", args=(two_dots,), timeout_s=20, trace=True)
        except LabkitError as error:
            return "deadlock" if isinstance(error, DeadlockError) else "error"
        if faults := [fault for fault in done.results if fault]:
            return str(faults[0])
        one = run(_one_sum, ranks, "star").makespan_s
        if ranks > 2 and done.makespan_s > 1.6 * one:
            return "slow"
    return ""


def _one_sum(comm: Any) -> None:
    comm.allreduce(np.zeros(2))


def _dotted(comm: Any, two_dots: Any) -> str:
    """Return what is wrong with this rank's numbers."""
    parts = [
        np.random.default_rng([rank, comm.size]).integers(-9, 9, (2, 5 + rank)) for rank in range(comm.size)
    ]
    r, w = parts[comm.rank].astype(float)
    found = np.asarray(two_dots(comm, r.copy(), w.copy()), float).ravel()
    wanted = [float(sum(part[k] @ part[0] for part in parts)) for k in (0, 1)]
    if found.tolist() == wanted:
        return ""
    if found.tolist() == [r @ r, w @ r]:
        return "local"
    return "swapped" if found.tolist() == wanted[::-1] else "wrong"


EXERCISES = {
    "sum_seconds": Exercise(
        "a number of seconds",
        float,
        near(0.2),
        "two sums in each of 1000 steps, 10 rounds each, 10 µs a round.",
        "how many sums has a step, how many rounds has a sum, and how long does a round take?",
        (
            Trap(near(0.1), "how many dot products has a step?"),
            Trap(near(0.02), "is an allreduce on 1024 ranks a single round?"),
            Trap(near(20.48), "that is one round for each rank. How many rounds has a tree?"),
            Trap(near(200), "is the answer in seconds?"),
        ),
    ),
    "pipelined_step": Exercise(
        "a number of microseconds",
        float,
        near(180),
        "the longer one of the product and the sum, 140 µs, and then the vectors.",
        "what happens at the same time, and what only afterwards?",
        (
            Trap(near(270), "that is one after the other: nothing is hidden."),
            Trap(near(130), "can 140 µs hide behind 90 µs?"),
            Trap(near(140), "do the vectors need the sums?"),
            Trap(near(320), "how many sums has a pipelined step?"),
        ),
    ),
    "busy_ranks": Exercise(
        "a number of ranks",
        float,
        near(3),
        "the blocks (2, 2), (3, 2), and (3, 3): a triangle in the lower right quarter.",
        "draw the 4 x 4 blocks, and cross out what is finished and what is never read.",
        (
            Trap(near(4), "is the upper triangle of A updated, too?"),
            Trap(near(8), "half of the columns are left. Which of their rows are finished?"),
            Trap(near(16), "that would be a cyclic distribution."),
            Trap(near(10), "that is the whole lower triangle. Which part of it is finished?"),
        ),
    ),
    "two_dots": Exercise(
        "a function two_dots(comm, r, w)",
        _tried,
        lambda fault: not fault,
        "two numbers in one message cost as much as one.",
        "try it on three ranks with vectors whose dot products you know.",
        (
            Trap(
                lambda fault: fault == "slow",
                "the numbers are right, but it takes as long as two collectives. Can one message have both?",
            ),
            Trap(
                lambda fault: fault == "local",
                "only this rank's parts are in it. Where are those of the others?",
            ),
            Trap(lambda fault: fault == "swapped", "both numbers are there. In which order?"),
            Trap(
                lambda fault: fault == "deadlock",
                "the run does not end: do all ranks take part in the collective?",
            ),
            Trap(
                lambda fault: fault == "error",
                "a rank fails. Every rank needs both numbers, and lists are joined by +, not added.",
            ),
        ),
    ),
}
