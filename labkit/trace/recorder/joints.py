"""Collectives of a real run: which calls of the ranks are one, and for whom each of them waited.

All need all, but a root that gives needs no other rank and is needed by all, one that takes needs all
and is needed by none, in a scan a rank needs those below it, and among neighbours its sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.waiting.kinds import base_of, is_begun

__all__ = ["join_calls", "joint_waits"]

Columns = dict[str, NDArray[Any]]

_FROM_ROOT, _TO_ROOT = ("bcast", "scatter", "scatterv"), ("gather", "gatherv", "reduce")
_PREFIX = ("scan", "exscan")


def join_calls(calls: Columns) -> NDArray[np.int64]:
    """Number the collectives: the n-th calls of a communicator's ranks are one; -1 for other calls."""
    rows = np.flatnonzero(calls["sequence"] >= 0)
    joint = np.full(len(calls["rank"]), -1)
    keys = np.stack([calls["context"][rows], calls["sequence"][rows]]).astype(np.int64)
    if len(rows):
        joint[rows] = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
    return joint


def joint_waits(
    calls: Columns,
    joint: NDArray[np.int64],
    names: NDArray[Any],
    sources: Mapping[tuple[int, int], list[int]],
) -> tuple[NDArray[Any], ...]:
    """Find what calls waited for in collectives.

    Parameters
    ----------
    calls : dict of arrays
    joint : array of int
        By call its collective: see `join_calls`.
    names : array of str
        By call.
    sources : mapping
        By rank and communicator the ranks from which the rank receives there as its neighbours.

    Returns
    -------
    call, ready_s, origin, message, cause : arrays
        The call that waited, when the last rank that it needs had come, that rank, -1, and the row of the
        call that began the collective: itself, unless it is nonblocking.
    """
    begin, end, rank = calls["begin_s"], calls["end_s"], calls["rank"]
    waiter = np.arange(len(rank))
    ended = np.flatnonzero(calls["ends"] >= 0)
    waiter[calls["ends"][ended]] = ended
    rows = np.flatnonzero(joint >= 0)
    rows = rows[np.lexsort((begin[rows], joint[rows]))]
    ready, origin = begin[waiter].copy(), rank.copy()
    for own in np.split(rows, np.flatnonzero(np.diff(joint[rows])) + 1) if len(rows) else ():
        last = _last_needed(calls, own, base_of(str(names[own[0]])), end[waiter[own]], sources)
        late = (last >= 0) & (begin[last] > begin[waiter[own]])
        ready[own[late]], origin[own[late]] = begin[last[late]], rank[last[late]]
    is_waited = waiter != np.arange(len(rank))
    is_waited |= ~np.array([is_begun(str(name)) for name in names], bool)
    rows = rows[is_waited[rows]]
    return waiter[rows], ready[rows], origin[rows], np.full(len(rows), -1), rows


def _last_needed(
    calls: Columns,
    own: NDArray[Any],
    base: str,
    until: NDArray[Any],
    sources: Mapping[tuple[int, int], list[int]],
) -> NDArray[np.int64]:
    """Return for each call of a collective the latest one that it needs and that began before it was over."""
    begin = calls["begin_s"]
    everybody = own[np.maximum(np.searchsorted(begin[own], until) - 1, 0)]
    if base in _FROM_ROOT or base in _TO_ROOT:
        is_root = calls["rank"][own] == calls["root"][own]
        if base in _TO_ROOT:
            return np.where(is_root, everybody, -1)
        root = own[is_root]
        one = int(root[0]) if root.size else -1
        return np.where(is_root | (begin[one] >= until), -1, one)
    if base in _PREFIX:
        place = calls["position"][own]
        below = [own[(place < mine) & (begin[own] < upto)] for mine, upto in zip(place, until, strict=True)]
        return np.array([rows[-1] if rows.size else -1 for rows in below])
    return _last_heard(calls, own, until, sources) if base.startswith("neighbor") else everybody


def _last_heard(
    calls: Columns, own: NDArray[Any], until: NDArray[Any], sources: Mapping[tuple[int, int], list[int]]
) -> NDArray[np.int64]:
    """Return for each call to neighbours the latest one of those from which it receives; -1: of none."""
    found = np.full(len(own), -1)
    row_of = dict(zip(calls["rank"][own].tolist(), own.tolist(), strict=True))
    keys = zip(calls["rank"][own].tolist(), calls["context"][own].tolist(), strict=True)
    for place, key in enumerate(keys):
        heard = [row_of[source] for source in sources.get(key, ()) if source in row_of]
        heard = [row for row in heard if calls["begin_s"][row] < until[place]]
        if heard:
            found[place] = max(heard, key=lambda row: calls["begin_s"][row])
    return found
