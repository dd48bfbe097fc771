"""Kinds of wait states, and who needs whom in which call: the two tables of wait states.

The names and definitions are those of EXPERT and Scalasca. A wait begins with the call (or with the rank's
having nothing else to do in it), and ends when the other side's call begins: what follows is the
message's own time.

A rank that exchanges several messages is blocked behind those that were on time as well, and may notice a
late side only when that arrives: in an exchange, in a wait for several requests, or in a later call. Such a
wait is as long as the other side was late (behind the call that posted the own side, and without what the
rank was busy with or has waited for already), and at most as long as the message held the rank behind the
others. It lies in the call that was held, and may be over later than the arrival of the late side.

References
----------
.. [1] F. Wolf, B. Mohr: Automatic performance analysis of hybrid MPI/OpenMP applications. Journal of Systems
   Architecture 49, 2003. doi:10.1016/S1383-7621(03)00102-4
.. [2] M. Geimer, F. Wolf, B. J. N. Wylie, B. Mohr: A scalable tool architecture for diagnosing wait states in
   massively parallel applications. Parallel Computing 35, 2009. doi:10.1016/j.parco.2009.02.003
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COMPUTATION",
    "GIVEN",
    "KINDS",
    "NEIGHBORS",
    "NOT_BEGUN",
    "STARTS",
    "UNTOLD",
    "CallKinds",
    "WaitKind",
    "base_of",
    "is_begun",
    "kind_number",
    "pattern_of",
    "patterns_of",
]

#: what a rank does between its calls, and before it begins (of a real run), where calls are named
COMPUTATION, NOT_BEGUN = "computation", "not yet begun"

#: all that a rank does, where its calls are not known (a schedule, GOAL)
UNTOLD = "computation and calls"

#: how the start of a persistent collective is called; its name follows, and a bracket
STARTS = "Start("


class WaitKind(NamedTuple):
    """A class of wait states.

    `group`: "point to point", "collective" or "one-sided".
    `meaning`: Who waits for what.
    """

    name: str
    group: str
    meaning: str


_P2P, _ALL, _RMA = "point to point", "collective", "one-sided"

#: by number, as in ``WaitState`` of the C++; from `GIVEN` on those that a recorder gives itself
KINDS = [
    WaitKind("late sender", _P2P, "a receiver waits until the message is sent"),
    WaitKind("late sender, wrong order (same source)", _P2P,
             "a receiver waits for a message; an older one of the same sender is there, received later"),
    WaitKind("late sender, wrong order (other source)", _P2P,
             "a receiver waits for a message; an older one of another sender is there, received later"),
    WaitKind("late receiver", _P2P, "a sender waits until the receiver is in the call that receives"),
    WaitKind("early reduce", _ALL, "the root of an n-to-1 operation waits until the first other comes"),
    WaitKind("wait at n-to-1", _ALL,
             "the root of an n-to-1 operation waits, from the first other on, until the last has arrived"),
    WaitKind("early scan", _ALL, "a rank waits in a scan until the last of those before it has arrived"),
    WaitKind("late broadcast", _ALL, "a rank waits in a 1-to-n operation until the root comes"),
    WaitKind("wait at nxn", _ALL, "a rank waits in an n-to-n operation until the last has arrived"),
    WaitKind("nxn completion", _ALL, "a rank is still in an n-to-n operation that the first has left"),
    WaitKind("wait at barrier", _ALL, "a rank waits in a barrier until the last has arrived"),
    WaitKind("barrier completion", _ALL, "a rank is still in a barrier that the first has left"),
    WaitKind("late member", _ALL,
             "inside a 1-to-n or n-to-1 operation, or a scan, a rank waits for one that comes late"),
    WaitKind("wait at neighbors", _ALL, "a rank waits in a neighborhood operation until a neighbor comes"),
    WaitKind("wait at fence", _RMA, "a rank waits in a fence of a window until the last has arrived"),
]  # fmt: skip

GIVEN = len(KINDS)

#: of windows: of simulated runs see `labkit.trace.waiting.windows`; a recorder may give them as well
KINDS += [
    WaitKind("late post", _RMA, "an origin waits until the target exposes its window"),
    WaitKind("early post", _RMA, "a target that has posted waits until the origin starts to access"),
    WaitKind("early wait", _RMA, "a target waits until the last access of the origin is over"),
    WaitKind("late complete", _RMA, "a target waits for an origin that is done, but does not complete"),
    WaitKind("early fence", _RMA, "a rank waits in a fence while others still access its part of the window"),
    WaitKind("lock contention", _RMA, "an origin waits until another gives the window's lock back"),
]

_PATTERNS = {
    "barrier": 2,
    **dict.fromkeys(("bcast", "scatter", "scatterv"), 3),
    **dict.fromkeys(("gather", "gatherv", "reduce"), 4),
    **dict.fromkeys(("scan", "exscan"), 5),
    "fence": 7,
}

_ALL_NEED_ALL, NEIGHBORS = 1, 6


def kind_number(name: str) -> int:
    """Return the number of a class of wait states."""
    for number, kind in enumerate(KINDS):
        if kind.name == name:
            return number
    raise KeyError(f"no wait state is called {name!r}; there are {', '.join(kind.name for kind in KINDS)}")


def pattern_of(name: str) -> int:
    """Return who needs whom in a collective call, as the number of ``Pattern`` in the C++.

    Examples
    --------
    >>> [pattern_of(name) for name in ("Barrier", "Iallreduce", "bcast", "Ineighbor_alltoall", "Split")]
    [2, 1, 3, 6, 1]
    """
    base = base_of(name)
    return NEIGHBORS if base.startswith("neighbor") else _PATTERNS.get(base, _ALL_NEED_ALL)


def base_of(name: str) -> str:
    """Return the collective that a call carries out or begins.

    Examples
    --------
    >>> base_of("Iallreduce"), base_of("Start(Bcast)"), base_of("Gather")
    ('allreduce', 'bcast', 'gather')
    """
    if name.startswith(STARTS):
        return name[len(STARTS) : -1].lower()
    return name[1:].lower() if is_begun(name) else name.lower()


def is_begun(name: str) -> bool:
    """Whether a collective call only begins the collective: no rank waits in it.

    Examples
    --------
    >>> is_begun("Ibarrier"), is_begun("Start(Bcast)"), is_begun("barrier"), is_begun("Intercomm_create")
    (True, True, False, False)
    """
    return name.startswith(STARTS) or _is_immediate(name)


def _is_immediate(name: str) -> bool:
    return name.startswith("I") and name[1:2].islower() and not name.startswith("Inter")


def patterns_of(names: NDArray[np.object_]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the patterns of names, and which of them only begin a collective."""
    return (
        np.array([pattern_of(str(name)) for name in names], np.uint8),
        np.array([is_begun(str(name)) for name in names], np.uint8),
    )


# The kinds of calls of a run: the same name at the same place in the program.


class CallKinds:
    """The kinds of calls of a run, numbered: the same name at the same place in the program.

    `names`, `places`: By number.
    `numbers`: By row of `Trace.calls`.
    """

    def __init__(self, calls: pd.DataFrame | None) -> None:
        import pandas as pd

        if calls is None or not len(calls):
            self.names, self.places = np.empty(0, object), np.empty(0, object)
            self.numbers = np.empty(0, np.int32)
            return
        name, names = pd.factorize(calls["call"])
        place, places = pd.factorize(calls["place"])
        both, pairs = pd.factorize(name.astype(np.int64) * len(places) + place)
        self.numbers = both.astype(np.int32)
        self.names = np.asarray(names, object)[pairs // len(places)]
        self.places = np.asarray(places, object)[pairs % len(places)]

    def are(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Return by row of `Trace.calls` whether it is one of these."""
        known: NDArray[np.bool_] = np.isin(self.names, list(names))[self.numbers]
        return known
