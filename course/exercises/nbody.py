"""Exercises on N-body computations: pairs, pieces of equal cost, and when a new distribution pays."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.jupyter.exercise import Exercise, Trap, near, tried_on

__all__ = ["EXERCISES"]

#: numbers of ranks that destinations are tried on
_RANKS = (5, 1, 2, 3, 16)
#: bytes that a rank may receive on 16 ranks; the costs of all bodies are at least 25 kB
_MOST_BYTES = 4000


def _tried(destinations: Any) -> str:
    """Return how the destinations failed at first, or "everybody" if a rank received all costs."""
    fault, received = tried_on(_RANKS, _distributed, destinations, "destinations")
    return fault or ("everybody" if received > _MOST_BYTES else "")


def _costs(rank: int, size: int) -> Any:
    """Return what the bodies of a rank cost: on some ranks many, on some none; dear and cheap ones."""
    length = (300, 400, 150, 0)[(rank + size) % 4]
    return np.random.default_rng([rank, size]).integers(1, (4, 60, 9)[rank % 3], length)


def _distributed(comm: Any, destinations: Any) -> str:
    """Return what is wrong with this rank's destinations."""
    everybody = [_costs(rank, comm.size) for rank in range(comm.size)]
    mine = everybody[comm.rank]
    found = np.asarray(destinations(comm, mine.copy())).ravel()
    if found.size != mine.size or (found.size and found.dtype.kind not in "iuf"):
        return "shape"
    costs, before = np.concatenate(everybody), sum(map(len, everybody[: comm.rank]))
    sums = np.concatenate([[0], np.cumsum(costs)])[before : before + len(mine) + 1]
    share = costs.sum() / comm.size
    # a body that lies in the piece of one rank goes there; one that lies across a cut may go to either side
    low = np.floor((sums[:-1] - 1e-9) / share).clip(0, comm.size - 1)
    high = np.floor((sums[1:] + 1e-9) / share).clip(0, comm.size - 1)
    if ((low <= found) & (found <= high) & (found == np.floor(found))).all() and (np.diff(found) >= 0).all():
        return ""
    if len(found) and (found == comm.rank).all():
        return "stays"
    by_number = (before + np.arange(len(mine))) * comm.size // len(costs)
    if np.abs(found - by_number).max() <= 1 and (np.abs(found - by_number) > 0).mean() < 0.05:
        return "number"
    alone = np.cumsum(mine) * comm.size / max(mine.sum(), 1)
    if np.abs(found - alone).max() <= 1.5:
        return "local"
    return "wrong"


EXERCISES = {
    "all_pairs_seconds": Exercise(
        "a number of seconds",
        float,
        near(200),
        "10^12 interactions, 20 operations each, on 100 ranks of 10^9 operations per second.",
        "how many interactions have all bodies together, and how many has one rank?",
        (
            Trap(near(20000), "that is one rank alone."),
            Trap(near(10), "how many operations is an interaction?"),
            Trap(near(100), "each of the n² interactions is computed here, also the one back."),
            Trap(near(2), "a rank has 10^4 bodies. With how many others does each interact?"),
        ),
    ),
    "costzones": Exercise(
        "a number of bodies",
        float,
        near(500),
        "all bodies cost 100,000, a quarter of that is 25,000, and a body there costs 50.",
        "what do all bodies cost together, and what is a fair share?",
        (
            Trap(near(1000), "that is the same number for everybody. What does each rank's part cost?"),
            Trap(near(2000), "how many bodies of cost 50 are a share of 25,000?"),
            Trap(near(250), "is 50,000 the cost of all bodies?"),
            Trap(near(1500), "does rank 3 get more bodies, or fewer?"),
        ),
    ),
    "balance_pays": Exercise(
        "a number of steps",
        float,
        near(4),
        "5 ms at 1.5 ms a step: 3.33, so the fourth step has paid.",
        "how much does a step gain, and how many of these gains are 5 ms?",
        (
            Trap(near(10 / 3, 0.02), "after 3 steps 4.5 ms have been gained. Whole steps, please."),
            Trap(near(3), "after 3 steps 4.5 ms have been gained. Is that enough?"),
            Trap(near(1), "does the first step gain 5 ms?"),
        ),
    ),
    "destinations": Exercise(
        "a function destinations(comm, costs)",
        _tried,
        lambda fault: not fault,
        "what lies before a body on the curve, over a rank's fair share, is the rank.",
        "try it on three ranks with a few bodies, and add up what each rank gets.",
        (
            Trap(lambda fault: fault == "stays", "every body stays where it is. What do the parts cost?"),
            Trap(
                lambda fault: fault == "number",
                "every rank gets the same number of bodies. Do they cost the same?",
            ),
            Trap(
                lambda fault: fault == "local",
                "each rank cuts its own bodies into p pieces. What do those of the ranks before it cost?",
            ),
            Trap(
                lambda fault: fault == "everybody",
                "the pieces are right, but a rank receives the costs of all bodies. Which sums are enough?",
            ),
            Trap(
                lambda fault: fault == "shape",
                "some rank returns more or fewer numbers than it has bodies; a rank may have none.",
            ),
            Trap(
                lambda fault: fault == "deadlock",
                "the run does not end: do all ranks take part in the collective, also those without a body?",
            ),
            Trap(
                lambda fault: fault == "error",
                "a rank fails. What does comm.exscan return on rank 0, and what if a rank has no body?",
            ),
        ),
    ),
}
