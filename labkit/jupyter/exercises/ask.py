"""All exercises by name, and the call that checks an answer."""

from __future__ import annotations

from typing import Any

from labkit.errors import DataError
from labkit.jupyter.exercises import (
    broadcasts,
    designs,
    halos,
    matrices,
    measurements,
    messages,
    network,
    noise,
    promises,
    reports,
    scans,
    searches,
    selectors,
    speedup,
    transforms,
    verdicts,
    wait_states,
)
from labkit.jupyter.exercises.base import Answer, Exercise
from labkit.nearest import nearest

__all__ = ["EXERCISES", "check"]

EXERCISES: dict[str, Exercise] = {
    name: exercise
    for module in (
        messages,
        halos,
        speedup,
        network,
        noise,
        verdicts,
        measurements,
        promises,
        wait_states,
        broadcasts,
        selectors,
        designs,
        reports,
        matrices,
        searches,
        transforms,
        scans,
    )
    for name, exercise in module.EXERCISES.items()
}


def check(name: str, answer: Any) -> Answer:
    """Check the answer to an exercise of the course; a wrong one gets a hint, not the solution.

    Parameters
    ----------
    name : str
        The exercise, as its notebook names it.
    answer : object
        What it asks for; "?" is no answer yet.

    Returns
    -------
    Answer
        True in a condition when it is right.

    Raises
    ------
    DataError
        For a name that no exercise has.

    Examples
    --------
    >>> check("matches", "?")
    … write a dict of growth to match, such as {"p": "exact"} in place of the question mark.
    """
    if name not in EXERCISES:
        also = nearest(str(name), EXERCISES, 1)
        every = f"{also} Exercises:" if also else "; there are"
        raise DataError(f"there is no exercise {name!r}{every} {', '.join(EXERCISES)}")
    return EXERCISES[name].check(answer)
