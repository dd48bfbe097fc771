"""Waits at the windows of a real run: who waited for whom, by the calls of both sides.

An origin waits for the post of its target in the call of its epoch that spans it, whichever the library
blocks in. A target waits until the origin that completes last has started, made its last access, completed.
For a lock a rank waits until another that holds it, one of the two exclusively, begins to give it back; of
two that want a lock, who is rid of it first has had it first.

References
----------
.. [1] A. Kuehnal, M.-A. Hermanns, B. Mohr, F. Wolf: Specification of inefficiency patterns for MPI-2
   one-sided communication. Euro-Par 2006, LNCS 4128.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.trace.recorder.windows import ACCESSES, WindowCall
from labkit.trace.waiting.kinds import kind_number

__all__ = ["targets_of", "window_waits"]

Columns = dict[str, NDArray[Any]]
_COLUMNS = ("rank", "begin_s", "until_s", "cause", "call", "cause_call", "state")


class Wait(NamedTuple):
    """A row of `labkit.trace.waiting.tables.given_columns`."""

    rank: int
    begin_s: float
    until_s: float
    cause: int
    call: int
    cause_call: int
    state: int


@dataclass
class _Epoch:
    """From the call that begins it to the one that ends it."""

    rank: int
    peers: tuple[int, ...]
    is_exclusive: bool
    calls: list[WindowCall] = field(default_factory=list)
    end: int = -1

    def towards(self, peer: int) -> list[int]:
        """Return its calls that concern a peer: those that name none concern all."""
        return [one.call for one in self.calls if not one.ranks or peer in one.ranks]


def targets_of(window_calls: Iterable[WindowCall], names: NDArray[Any]) -> dict[int, int]:
    """Return by row of a call the target that it accesses."""
    return {one.call: one.ranks[0] for one in window_calls if one.ranks and names[one.call] in ACCESSES}


def window_waits(calls: Columns, names: NDArray[Any], window_calls: Sequence[WindowCall]) -> Any:
    """Find what ranks waited for at posts, completions and locks.

    Parameters
    ----------
    calls : dict of arrays
        rank, begin_s and end_s of all calls.
    names : array of str
        By call.
    window_calls : sequence of WindowCall
        By rows of `calls`, of each rank in the order of its calls.

    Returns
    -------
    pandas.DataFrame or None
        See `labkit.trace.waiting.tables.given_columns`; None where nobody waited.
    """
    import pandas as pd

    by_window: dict[int, list[WindowCall]] = {}
    for one in window_calls:
        by_window.setdefault(one.window, []).append(one)
    found: list[Wait] = []
    for own in by_window.values():
        accesses = _epochs(own, calls, names, ("Start",), ("Complete",))
        exposures = _epochs(own, calls, names, ("Post",), ("Wait", "Test"))
        found += _late_posts(calls, accesses, exposures)
        found += _late_origins(calls, names, accesses, exposures)
        found += _locks(calls, own, names)
    if not found:
        return None
    found.sort()
    return pd.DataFrame(found, columns=_COLUMNS)


def _epochs(
    own: list[WindowCall], calls: Columns, names: NDArray[Any], first: tuple[str, ...], last: tuple[str, ...]
) -> list[_Epoch]:
    """Return the epochs of all ranks that begin and end with these calls."""
    found: list[_Epoch] = []
    going: dict[int, _Epoch] = {}
    for one in own:
        rank, name = int(calls["rank"][one.call]), names[one.call]
        if name in first:
            going[rank] = _Epoch(rank, one.ranks, one.is_exclusive)
            found.append(going[rank])
        if rank not in going:
            continue
        if name in first or name in last or name in ACCESSES:
            going[rank].calls.append(one)
        if name in last:
            going.pop(rank).end = one.call
    return [one for one in found if one.end >= 0]


def _pairs(
    accesses: list[_Epoch], exposures: list[_Epoch]
) -> tuple[dict[int, list[tuple[int, _Epoch]]], dict[int, list[_Epoch]]]:
    """Return by number of an access epoch its (target, exposure), and by that of an exposure its accesses.

    The n-th epoch of an origin that has a target is the n-th of the target's that has that origin.
    """
    queues: dict[tuple[int, int], list[int]] = {}
    for number, epoch in enumerate(exposures):
        for origin in epoch.peers:
            queues.setdefault((origin, epoch.rank), []).append(number)
    taken: dict[tuple[int, int], int] = {}
    of_access: dict[int, list[tuple[int, _Epoch]]] = {}
    of_exposure: dict[int, list[_Epoch]] = {}
    for number, access in enumerate(accesses):
        for target in access.peers:
            key = (access.rank, target)
            turn = taken.get(key, 0)
            taken[key] = turn + 1
            if turn < len(queues.get(key, ())):
                exposure = queues[key][turn]
                of_access.setdefault(number, []).append((target, exposures[exposure]))
                of_exposure.setdefault(exposure, []).append(access)
    return of_access, of_exposure


def _late_posts(calls: Columns, accesses: list[_Epoch], exposures: list[_Epoch]) -> list[Wait]:
    begin, end = calls["begin_s"], calls["end_s"]
    found = []
    for number, met in _pairs(accesses, exposures)[0].items():
        access = accesses[number]
        for one in access.calls:
            posts = [exposure.calls[0].call for target, exposure in met if _concerns(one, target)]
            posts = [post for post in posts if begin[one.call] < begin[post] < end[one.call]]
            if posts:
                post = max(posts, key=lambda row: begin[row])
                found.append(_wait(calls, one.call, begin[one.call], begin[post], post, "late post"))
    return found


def _concerns(call: WindowCall, target: int) -> bool:
    return not call.ranks or target in call.ranks


def _late_origins(
    calls: Columns, names: NDArray[Any], accesses: list[_Epoch], exposures: list[_Epoch]
) -> list[Wait]:
    begin, end = calls["begin_s"], calls["end_s"]
    found = []
    for number, met in _pairs(accesses, exposures)[1].items():
        wait = exposures[number].end
        late = [access for access in met if begin[wait] < begin[access.end] < end[wait]]
        if not late:
            continue
        last = max(late, key=lambda access: begin[access.end])
        own = [row for row in last.towards(exposures[number].rank) if names[row] in ACCESSES]
        over = max((float(end[row]) for row in own), default=-np.inf)
        since = float(begin[wait])
        borders = (begin[last.calls[0].call], over, begin[last.end])
        for state, until in zip(("early post", "early wait", "late complete"), borders, strict=True):
            until = min(float(until), float(begin[last.end]))
            if until > since:
                found.append(_wait(calls, wait, since, until, last.end, state))
                since = until
    return found


def _locks(calls: Columns, own: list[WindowCall], names: NDArray[Any]) -> list[Wait]:
    begin, end = calls["begin_s"], calls["end_s"]
    found = []
    for target in sorted({rank for one in own for rank in one.ranks}):
        epochs = _lock_epochs(own, calls, names, target)
        unlocks = sorted(epochs, key=lambda epoch: begin[epoch.end])
        for epoch in epochs:
            for row in epoch.towards(target):
                holders = [
                    other.end for other in unlocks
                    if other.rank != epoch.rank and (other.is_exclusive or epoch.is_exclusive)
                    and begin[row] < begin[other.end] < end[row] and end[other.end] < end[epoch.end]
                ]  # fmt: skip
                if holders:
                    holder = holders[-1]
                    found.append(_wait(calls, row, begin[row], begin[holder], holder, "lock contention"))
    return found


def _lock_epochs(own: list[WindowCall], calls: Columns, names: NDArray[Any], target: int) -> list[_Epoch]:
    """Return the epochs in which ranks had, or wanted, the lock of a target."""
    going: dict[int, _Epoch] = {}
    found = []
    for one in own:
        rank, name = int(calls["rank"][one.call]), names[one.call]
        if name in ("Lock", "Lock_all") and target in one.ranks:
            going[rank] = _Epoch(rank, one.ranks, one.is_exclusive)
            found.append(going[rank])
        if rank not in going or (one.ranks and target not in one.ranks):
            continue
        going[rank].calls.append(one)
        if name in ("Unlock", "Unlock_all"):
            going.pop(rank).end = one.call
    return [one for one in found if one.end >= 0]


def _wait(calls: Columns, row: int, begin_s: float, until_s: float, cause_row: int, state: str) -> Wait:
    rank, cause = int(calls["rank"][row]), int(calls["rank"][cause_row])
    return Wait(rank, float(begin_s), float(until_s), cause, row, cause_row, kind_number(state))
