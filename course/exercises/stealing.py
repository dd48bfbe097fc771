"""Exercises on work stealing: balance, how often to look for messages, and when a search is over."""

from __future__ import annotations

from typing import Any

from labkit.jupyter.exercise import Exercise, Trap, near, tried_on

__all__ = ["EXERCISES"]

#: numbers of ranks that a test for the end is tried on
_RANKS = (4, 1, 2, 3, 8)


def _tried(all_done: Any) -> str:
    return tried_on(_RANKS, _ended, all_done, "all_done")[0]


def _states(size: int) -> list[list[tuple[bool, int, int]]]:
    """Return, for some moments of a search, whether each rank has nodes, and parcels sent and received."""
    quiet = [(False, 0, 0)] * size
    around = [(False, 1, 1)] * size
    working = [(rank == size - 1, 0, 0) for rank in range(size)]
    under_way = [(False, int(rank == 0), 0) for rank in range(size)]
    arrived = [(False, 3 * (rank == 0), 3 * (rank == size - 1)) for rank in range(size)]
    both = [(rank == 0, 2, 1) for rank in range(size)]
    return [quiet, around, working, under_way, arrived, both]


def _ended(comm: Any, all_done: Any) -> str:
    """Return what is wrong with this rank's answers."""
    states = _states(comm.size)
    found = [all_done(comm, *state[comm.rank]) for state in states]
    if any(answer not in (True, False) for answer in found):
        return "no answer"
    idle = [not any(has for has, _, _ in state) for state in states]
    arrived = [sum(sent for _, sent, _ in state) == sum(got for _, _, got in state) for state in states]
    if found == [a and b for a, b in zip(idle, arrived, strict=True)]:
        return ""
    if comm.size > 1 and found == idle:
        return "under way"
    if comm.size > 1 and found == arrived:
        return "nodes"
    own = [(not has, sent == got) for has, sent, got in (state[comm.rank] for state in states)]
    return "local" if found in ([a and b for a, b in own], [a for a, _ in own]) else "wrong"


EXERCISES = {
    "static_speedup": Exercise(
        "a number of times",
        float,
        near(16 / 7, 0.02),
        "the busiest rank has 7/16 of all nodes, and the run takes as long as that rank.",
        "which share of all nodes has the busiest rank?",
        (
            Trap(
                near(7),
                "that is the imbalance. How long does the busiest rank take, compared with one rank?",
            ),
            Trap(near(16), "that would be a perfect balance."),
            Trap(near(7 / 16, 0.02), "that is the share of the busiest rank. And the speed-up?"),
            Trap(near(9), "how long does the busiest rank take, compared with one rank alone?"),
        ),
    ),
    "looks": Exercise(
        "a number of nodes",
        float,
        lambda answer: answer in (19, 20),
        "20 nodes take 2 ms, and 5 % of that is one look.",
        "how long do k nodes take, and how long is a look compared with that?",
        (
            Trap(near(5), "5 nodes take 0.5 ms: a look is a fifth of that."),
            Trap(near(95), "which share of the time of 95 nodes is a look?"),
            Trap(near(1), "a look after each node takes as long as the nodes."),
            Trap(near(100), "which share of the time of 100 nodes is a look?"),
        ),
    ),
    "parcels": Exercise(
        "a number of parcels",
        float,
        near(1),
        "five have been sent and four have arrived.",
        "how many parcels have been sent by all ranks together, and how many have been received?",
        (
            Trap(near(0), "all ranks are idle and white. Have all parcels arrived?"),
            Trap(near(3), "that is rank 0's surplus. Which of its parcels have others received?"),
            Trap(near(5), "that is what has been sent. What has arrived?"),
            Trap(near(-1), "more received than sent?"),
        ),
    ),
    "all_done": Exercise(
        "a function all_done(comm, has_nodes, sent, received)",
        _tried,
        lambda fault: not fault,
        "nobody has nodes, and what has been sent has arrived.",
        "try it on three ranks, with a parcel that has been sent and has not arrived.",
        (
            Trap(
                lambda fault: fault == "under way",
                "it reports that all is done while a parcel of nodes is under way. Which numbers show that?",
            ),
            Trap(
                lambda fault: fault == "nodes",
                "all parcels have arrived, but a rank still has nodes.",
            ),
            Trap(
                lambda fault: fault == "local",
                "a rank knows only itself here. What about the others?",
            ),
            Trap(
                lambda fault: fault == "deadlock",
                "the run does not end: do all ranks take part in the collective, also those with nodes?",
            ),
            Trap(lambda fault: fault == "no answer", "some rank returns neither True nor False."),
            Trap(lambda fault: fault == "error", "a rank fails. Try it on one rank and on two."),
        ),
    ),
}
