"""Exercises on wrong programs and what is said of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.errors import DeadlockError, LabkitError
from labkit.jupyter.exercise import Exercise, Trap, choice

__all__ = ["EXERCISES"]

_LIMIT_S = 20.0
_TRIES = 6


@dataclass(frozen=True)
class _Tried:
    """What a reader's collect does.

    Attributes
    ----------
    fault : str
        How it fails at first: "deadlock", "error", "values", "order", "notes", or "".
    """

    fault: str


def _tried(function: Any) -> _Tried:
    """Run it checked on several numbers of ranks and sizes, then in other orders of its messages."""
    from labkit.launch.run import run

    if not callable(function):
        raise TypeError(function)

    def program(comm: Any, n: int) -> Any:
        mine = np.full(n, 10.0 * comm.rank)
        got = function(comm, mine)
        mine[:] = -1.0  # it is the caller's again
        comm.Barrier()
        return None if comm.rank else [float(np.ravel(row)[0]) for row in got]

    worst = ""
    for ranks, n in ((1, 3), (2, 3), (4, 3), (5, 20_000), (8, 3)):
        try:
            ended = run(program, ranks, "star", args=(n,), timeout_s=_LIMIT_S, check=True)
            tried = run(program, ranks, "star", args=(n,), timeout_s=_LIMIT_S, explore=_TRIES)
        except DeadlockError:
            return _Tried("deadlock")
        except LabkitError:
            return _Tried("error")
        wanted = [10.0 * rank for rank in range(ranks)]
        found = ended.results[0]
        if sorted(found) != wanted:
            return _Tried("values")
        if tried.exploration.differences or found != wanted:
            return _Tried("order")
        if any(note.startswith("check:") or "never received" in note for note in ended.notes):
            worst = "notes"
    return _Tried(worst)


def _is(wanted: str) -> Any:
    return lambda tried: tried.fault == wanted


EXERCISES = {
    "culprit": choice(
        "C",
        "ranks 0, 1 and 2 are in the barrier, as they should be; rank 3 is where it should not be, and the "
        "others wait for it, one directly and two by way of it.",
        "for each rank: is it in the call that comes next in the program, and who is not?",
        A="rank 0 is the first in the report because it has the lowest number.",
        B="three of the four are where the program wants them to be. A majority proves no guilt.",
        D="rank 0 sends nothing: it stands in its barrier. Should it have sent, or should nobody "
                "receive?",
    ),
    "collect": Exercise(
        "a function collect(comm, mine)",
        _tried,
        lambda tried: tried.fault == "",
        "right on every number of ranks, with nothing left over, and the same in whatever order messages "
        "come.",
        "try it in a program of your own, with check=True and with explore=20.",
        (
            Trap(_is("order"), "rows stand in the order in which they came. Who is row 3 then?"),
            Trap(
                _is("notes"),
                "every row is right, and check=True has something to say: a request or a message is left "
                "over, or a buffer is used while it belongs to MPI.",
            ),
            Trap(_is("deadlock"), "it does not end for every number of ranks. Who waits for whom?"),
            Trap(_is("values"), "rows are missing, another rank's, or overwritten by the next one."),
        ),
    ),
    "works_here": choice(
        "B",
        "the standard lets the library send the buffer at any time until Wait: with another size, machine or "
        "library, or on a busy day, it is the new content.",
        "whose is the buffer between Isend and Wait?",
        A="a run is one of the many that MPI allows. What may the others do?",
        C="a Barrier orders ranks. Does it say that a message has left?",
        D="the receiver gets the bytes. Which bytes, is decided at the sender.",
    ),
}  # fmt: skip
