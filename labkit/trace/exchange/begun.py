"""Collectives that a call only begins: in which later call each of them ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labkit.comm.surface import REQUESTS
from labkit.trace.waiting.call_kinds import CallKinds
from labkit.trace.waiting.kinds import patterns_of
from labkit.trace.waiting.tables import wait_columns

if TYPE_CHECKING:
    from labkit.trace.recorded_run import RecordedRun

__all__ = ["endings"]

_ENDS = frozenset(row.name for row in REQUESTS)


def endings(run: RecordedRun) -> dict[int, int]:
    """Return by row of the call that began a collective the row of the wait or test that ended it.

    That is the call that waited for it. Of one that nobody waited for, because it was over before, it is the
    rank's first wait or test from then on. One that never ended is left out.

    Parameters
    ----------
    run : Run
        Recorded with ``trace=True``.
    """
    calls = run.trace.calls
    if calls is None or not len(calls):
        return {}
    _, is_begun = patterns_of(calls["call"].to_numpy())
    begun = np.flatnonzero((is_begun > 0) & (calls["joint"].to_numpy() >= 0))
    if not len(begun):
        return {}
    rank, begin_s, end_s = (calls[name].to_numpy() for name in ("rank", "begin_s", "end_s"))
    over = dict(zip(begun.tolist(), end_s[begun].tolist(), strict=True))
    blocked = wait_columns(run.trace, run.phases, CallKinds(calls))[0]["blocked"]
    for row, until in zip(blocked["begun"].tolist(), blocked["end_s"].tolist(), strict=True):
        if row in over:
            over[row] = max(over[row], until)
    ends = np.flatnonzero(calls["call"].isin(_ENDS).to_numpy())
    ends = ends[np.lexsort((begin_s[ends], rank[ends]))]
    found = {}
    for row, until in over.items():
        own = ends[np.searchsorted(rank[ends], rank[row]) : np.searchsorted(rank[ends], rank[row], "right")]
        own = own[(begin_s[own] >= end_s[row]) & (end_s[own] >= until)]
        if len(own):
            found[row] = int(own[0])
    return found
