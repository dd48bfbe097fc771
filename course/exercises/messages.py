"""Exercises on messages and deadlocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.errors import DeadlockError, LabkitError
from labkit.jupyter.exercise import Exercise, Trap, choice
from labkit.launch.run import run

__all__ = ["EXERCISES"]

_RANKS = (2, 3, 4, 5, 8)
_SHORT, _LONG = 10, 20_000
_LIMIT_S = 20.0


@dataclass(frozen=True)
class _Tried:
    """What a reader's pass_right does.

    Attributes
    ----------
    hangs : str
        "short", "long", "one" (rank) or "": on what it hangs, the worst first.
    is_right : bool
        Whether every rank got its left neighbor's object where it ended.
    borrowed : bool
        Whether it called a collective or sendrecv.
    grows : bool
        Whether it takes notably longer on 16 ranks than on 4.
    """

    hangs: str
    is_right: bool
    borrowed: bool
    grows: bool


def _tried(function: Any) -> _Tried:
    if not callable(function):
        raise TypeError(function)
    used: set[str] = set()

    def program(comm: Any, n: int) -> Any:
        watched = _Watched(comm, set())
        got = function(watched, np.full(n, float(comm.rank)))
        return float(np.asarray(got, float).ravel()[0]), watched._used  # a rank may have its own variables

    hangs, is_right, times = [], True, {}
    cases = [("short", p, _SHORT) for p in _RANKS] + [("long", p, _LONG) for p in (*_RANKS, 16)]
    for name, ranks, n in [*cases, ("one", 1, _SHORT), ("one", 1, _LONG)]:
        try:
            ended = run(program, ranks, "star", args=(n,), timeout_s=_LIMIT_S)
        except DeadlockError:
            hangs.append(name)
            continue
        except LabkitError:
            is_right = False
            continue
        found, calls = zip(*ended.results, strict=True)
        used.update(*calls)
        is_right = is_right and list(found) == [float((rank - 1) % ranks) for rank in range(ranks)]
        times[ranks, n] = ended.makespan_s
    grows = times.get((16, _LONG), 0.0) > 2.0 * times.get((4, _LONG), float("inf"))
    worst = next((name for name in ("short", "long", "one") if name in hangs), "")
    return _Tried(worst, is_right, bool(used), grows)


class _Watched:
    """A communicator that notes the calls which the exercise does not want."""

    def __init__(self, comm: Any, used: set[str]) -> None:
        self._comm, self._used = comm, used

    def __getattr__(self, name: str) -> Any:
        if name.lower() not in _ALLOWED:
            self._used.add(name)
        return getattr(self._comm, name)


_ALLOWED = {
    "rank", "size", "get_rank", "get_size", "send", "recv", "isend", "irecv", "ssend", "issend", "bsend",
    "ibsend", "probe", "iprobe", "mprobe", "improbe",
}  # fmt: skip

EXERCISES = {
    "exchange": choice(
        "B",
        "whoever receives first has a neighbor who sends first, on both sides; if p is odd, the last and "
        "the first "
        "rank both send first, and the last one waits for a neighbor that is not waiting for it.",
        "draw the wait-for graph for two ranks.",
        A="that is the program of the beginning. What happens from 64 KiB on?",
        C="who is the first to send?",
        D="when does Wait return if the message is long, and who has called Recv by then?",
    ),
    "chain": Exercise(
        "a number of seconds",
        float,
        lambda seconds: seconds == 8,
        "rank 7 can send at once, since rank 0 receives; rank 6 only after that, ..., rank 1 in the seventh "
        "second. "
        "Then only is rank 1 free to receive what rank 0 sends: the eighth. One message after another, all "
        "round.",
        "write down for 3 ranks who sends to whom in each second; then for 4.",
        (
            Trap(lambda s: s == 1, "that is when all send and receive at the same time, as with Sendrecv."),
            Trap(
                lambda s: s == 2,
                "that is what the odd and even ranks need. Here one rank alone turns round.",
            ),
            Trap(
                lambda s: s == 7,
                "the seven who send first are through then. Whose message is still missing?",
            ),
        ),
    ),
    "pass_right": Exercise(
        "a function pass_right(comm, mine)",
        _tried,
        lambda tried: not tried.hangs and tried.is_right and not tried.borrowed and not tried.grows,
        "it ends for one rank and for many, for short and for long messages, and all messages travel at "
        "once.",
        "a rank got another's object than that of its left neighbor, or an error came (irecv needs a "
        "buffer for "
        "long objects).",
        (
            Trap(
                lambda tried: tried.borrowed,
                "that call does the work for you. Use sends, receives and their waits.",
            ),
            Trap(
                lambda tried: tried.hangs == "short",
                "it hangs even with ten numbers: who is the first to send?",
            ),
            Trap(
                lambda tried: tried.hangs == "long",
                "it works with ten numbers and hangs with 20,000: it needs sends that do not wait for their "
                "receiver.",
            ),
            Trap(
                lambda tried: tried.hangs == "one",
                "it works from two ranks on. One rank is its own neighbor: whom does its send wait for?",
            ),
            Trap(
                lambda tried: tried.is_right and tried.grows,
                "right, and it takes far longer on 16 ranks than on 4: the messages go one after another.",
            ),
        ),
    ),
}  # fmt: skip
