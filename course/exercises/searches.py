"""Exercises on graphs that are distributed over ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labkit.jupyter.exercise import Exercise, Trap, choice, near

__all__ = ["EXERCISES"]

#: numbers of ranks and of vertices that an exchange is tried with
_CASES = ((1, 10), (2, 7), (3, 40), (5, 3), (8, 500))


class _Tried(NamedTuple):
    """How an exchange failed at first, and whether a rank received half of all vertices or more."""

    fault: str
    is_for_everybody: bool


def _tried(to_owners: Any) -> _Tried:
    from labkit.errors import DeadlockError, LabkitError
    from labkit.launch.run import run

    if not callable(to_owners):
        raise TypeError(f"to_owners must be a function, got {type(to_owners).__name__}")
    faults, volume = [], 0.0
    for ranks, n in _CASES:
        try:
            done = run(_exchanged, ranks, "star", args=(to_owners, n), timeout_s=20, count=True)
        except LabkitError as error:
            faults.append("deadlock" if isinstance(error, DeadlockError) else "error")
            continue
        faults += [fault for fault in done.results if fault][:1]
        assert done.counts is not None
        volume = float(done.counts["received_bytes"].max())
    return _Tried(faults[0] if faults else "", volume > 4 * sum(_length(rank, n) for rank in range(ranks)))


def _length(rank: int, n: int) -> int:
    """Return the number of vertices that a rank passes: none on some, more than there are on others."""
    return (0, n // 2, 2 * n)[rank % 3]


def _exchanged(comm: Any, to_owners: Any, n: int) -> str:
    """Return what is wrong with this rank's vertices."""
    lists = [np.random.default_rng(rank).integers(0, n, _length(rank, n)) for rank in range(comm.size)]
    low, high = comm.rank * n // comm.size, (comm.rank + 1) * n // comm.size
    wanted = np.unique(np.concatenate(lists))
    wanted = wanted[(low <= wanted) & (wanted < high)].tolist()
    found = np.asarray(to_owners(comm, lists[comm.rank].copy(), n)).tolist()
    if found == wanted:
        return ""
    if not isinstance(found, list) or not all(isinstance(one, int | float) for one in found):
        return "no vertices"
    if not all(low <= one < high for one in found):
        return "foreign"
    return "repeated" if sorted(set(found)) == wanted else "missing"


EXERCISES = {
    "last_level": Exercise(
        "the number of a level",
        float,
        near(198),
        "99 steps to the right and 99 down lead to the opposite corner, and no way is shorter.",
        "how many edges does the shortest way to the farthest vertex have?",
        (
            Trap(near(99), "that is the corner on the same side. Is it the farthest vertex?"),
            Trap(near(200), "100 vertices in a row have how many edges between them?"),
            Trap(near(100), "is the farthest vertex in the same row as the root?"),
            Trap(near(9999), "then each level would have one vertex. How many neighbors has the root?"),
        ),
    ),
    "fold": Exercise(
        "a number of messages",
        float,
        near(31),
        "the owner of a neighbor is in the same row of 32 ranks, so there are 31 others to send to.",
        "how many ranks has a row of the grid, and to how many of them does a rank send?",
        (
            Trap(near(32), "does a rank send a message to itself?"),
            Trap(near(62), "those are the partners of a level in all. Which of them does the fold need?"),
            Trap(near(1023), "is the owner of a neighbor in any row, or in this rank's own?"),
            Trap(
                near(10),
                "an allgather of 1024 ranks has that many rounds. The fold is an all-to-all.",
            ),
        ),
    ),
    "smaller_delta": choice(
        "C",
        "wasted relaxations then cost ten times as much, and rounds cost the same: it pays to waste less.",
        "a smaller bucket means more rounds and fewer relaxations. Which of the two has become dearer?",
        A="does latency make a round dearer, or a relaxation?",
        B="how many edges has each rank to relax then, and how many partners?",
        D="of what are there more with smaller buckets: collectives or relaxations?",
    ),
    "to_owners": Exercise(
        "a function to_owners(comm, vertices, n)",
        _tried,
        lambda tried: not tried.fault and not tried.is_for_everybody,
        "each vertex travels to its owner only, once from each rank, and the owner removes what came twice.",
        "try it with three ranks and lists that you can check by eye, an empty one among them.",
        (
            Trap(
                lambda tried: not tried.fault,
                "the vertices are right, but every rank receives the lists of all ranks. What would that "
                "cost on a thousand ranks?",
            ),
            Trap(
                lambda tried: tried.fault == "foreign",
                "a rank returns vertices that it does not own. To which rank does vertex v go, and does that "
                "hold if n is no multiple of p?",
            ),
            Trap(
                lambda tried: tried.fault == "repeated",
                "the right vertices, but not each once and in rising order: two ranks may send the same one.",
            ),
            Trap(
                lambda tried: tried.fault == "missing",
                "some vertices never arrive at their owner. Does each rank receive from all others, and does "
                "it keep what it has itself?",
            ),
            Trap(
                lambda tried: tried.fault == "deadlock",
                "the run does not end: a rank waits for a message that no rank sends, perhaps from a rank "
                "whose list is empty.",
            ),
        ),
    ),
}
