"""Exercises on prefix sums, their work and span, and places in a compacted array."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labkit.jupyter.exercise import Exercise, Trap, near, tried_on

__all__ = ["EXERCISES"]

#: numbers of ranks that places are tried on
_RANKS = (2, 1, 3, 5, 8)


class _Tried(NamedTuple):
    """How the places were wrong at first, and whether a rank received the arrays of others."""

    fault: str
    is_for_everybody: bool


def _tried(places: Any) -> _Tried:
    fault, received = tried_on(_RANKS, _placed, places, "places")
    return _Tried(fault, received > 2000)


def _kept(rank: int, size: int) -> Any:
    """Return what a rank keeps: on some ranks much, on some nothing."""
    length = (600, 0, 900, 1)[(rank + size) % 4]
    return np.random.default_rng([rank, size]).random(length) < (0.5, 1.0, 0.1)[rank % 3]


def _placed(comm: Any, places: Any) -> str:
    """Return what is wrong with this rank's places."""
    counts = [int(_kept(rank, comm.size).sum()) for rank in range(comm.size)]
    first = sum(counts[: comm.rank])
    keep = _kept(comm.rank, comm.size)
    found = np.asarray(places(comm, keep.copy())).ravel()
    if found.dtype.kind not in "iuf" and found.size:
        return "no numbers"
    if len(found) != counts[comm.rank]:
        return "length"
    wanted = np.arange(first, first + counts[comm.rank])
    if np.array_equal(found, wanted):
        return ""
    if np.array_equal(found, wanted - first):
        return "local"
    return "inclusive" if np.array_equal(found, wanted + counts[comm.rank]) else "shifted"


EXERCISES = {
    "doubling_work": Exercise(
        "a number of additions",
        float,
        near(9217),
        "n log2 n - (1 + 2 + 4 + ... + 512): in the step with distance d the first d numbers add nothing.",
        "how many of the numbers have one at distance d before them, for d = 1, 2, 4, ..., 512?",
        (
            Trap(near(10240), "has the first number one to add? How many have none at distance 512?"),
            Trap(near(1023), "that is the serial loop."),
            Trap(near(10), "those are the steps. How many additions are there in each?"),
            Trap(near(3070), "that is Blelloch's scan."),
        ),
    ),
    "brent": Exercise(
        "a number of steps",
        float,
        near(3040),
        "W / p + S = 3000 + 40: the work shared out, and for each level one step that may be partly empty.",
        "two terms: the work that is shared, and the chain that is not.",
        (
            Trap(near(3000), "that is the work alone. Can the processors always all be busy?"),
            Trap(near(40), "that needs as many processors as there are operations in a step."),
            Trap(near(1040), "is the work n or 3 n?"),
            Trap(near(3_000_040), "do the processors share the work?"),
        ),
    ),
    "fastest_scan": Exercise(
        "a number of ranks",
        float,
        near(640),
        "p* is proportional to n and inversely proportional to the latency: both factors cancel.",
        "which way does each of the two move the best number of ranks, and by what factor?",
        (
            Trap(near(160), "that is the effect of the latency. What does the larger array do?"),
            Trap(near(2560), "that is the effect of the array. What does the latency do?"),
            Trap(near(10240), "do both move it in the same direction?"),
            Trap(near(1280), "is the best number proportional to n, or to its root?"),
        ),
    ),
    "places": Exercise(
        "a function places(comm, keep)",
        _tried,
        lambda tried: not tried.fault and not tried.is_for_everybody,
        "one exclusive scan of the counts is all that the ranks have to exchange.",
        "try it with three ranks and arrays that you can check by eye, an empty one among them.",
        (
            Trap(
                lambda tried: not tried.fault,
                "the places are right, but a rank receives the arrays of others. Which single number of the "
                "ranks before does it need?",
            ),
            Trap(
                lambda tried: tried.fault == "local",
                "every rank begins at 0. How many elements do the ranks before it keep?",
            ),
            Trap(
                lambda tried: tried.fault == "inclusive",
                "every rank begins too far behind, by as many as it keeps itself: is the scan to contain its "
                "own count?",
            ),
            Trap(
                lambda tried: tried.fault == "length",
                "a rank returns one place for each element that it keeps, and none for the others.",
            ),
            Trap(
                lambda tried: tried.fault == "deadlock",
                "the run does not end: do ranks with an empty array take part in the scan, too?",
            ),
            Trap(
                lambda tried: tried.fault == "error",
                "a rank fails. What does an exclusive scan return on rank 0, and how does it treat None?",
            ),
        ),
    ),
}
