"""Visits of a phase: ranks' computation in it, each time that they enter it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from labkit.trace.recorded_run import RecordedRun
    from labkit.trace.waiting.analysis import Waiting

__all__ = ["by_visit", "outermost"]

#: of all that a rank computes, shares below this are rounding
_ROUNDING = 1e-12

Array = NDArray[np.float64]


def by_visit(run: RecordedRun, waiting: Waiting, phase: str) -> tuple[Array, Array]:
    """Sum up what is computed in a phase, and in those inside it.

    Parameters
    ----------
    run : Run
        Recorded.
    waiting : Waiting
        Of the run.
    phase : str

    Returns
    -------
    spent, critical : arrays of shape (ranks, visits)
        Seconds in all, and on the critical path. Ranks that enter the phase less often have 0 s at the end. A
        phase in itself is one visit.
    """
    rows = run.phases[run.phases["phase"] == phase]
    visits = [outermost(rows[rows["rank"] == rank]) for rank in range(run.ranks)]
    most = max((len(begin) for begin, _ in visits), default=0)
    spent, critical = np.zeros((run.ranks, most)), np.zeros((run.ranks, most))
    work, path = run.trace.computations, waiting.critical
    owner, visitor = work["rank"].to_numpy(), path["rank"].to_numpy()
    for rank, (begin, end) in enumerate(visits):
        if not len(begin):
            continue
        works = _stretches(work[owner == rank])
        both = _common(works, _stretches(path[visitor == rank]))
        spent[rank, : len(begin)] = _within(works, begin, end)
        critical[rank, : len(begin)] = _within(both, begin, end)
    return spent, critical


def outermost(rows: Any) -> tuple[Array, Array]:
    """Return begins and ends of one rank's entries into a phase; those inside others are left out."""
    begin, end = rows["begin_s"].to_numpy(np.float64), rows["end_s"].to_numpy(np.float64)
    order = np.lexsort((-end, end > begin, begin))  # those that take no time came before, not inside
    begin, end = begin[order], end[order]
    before = np.concatenate([[-np.inf], np.maximum.accumulate(end)[:-1]]) if len(end) else end
    outer = begin >= before
    return begin[outer], end[outer]


def _stretches(rows: Any) -> Array:
    """Return begins and ends in order of time, shape (stretches, 2)."""
    found: Array = rows[["begin_s", "end_s"]].to_numpy(np.float64)
    return found[np.argsort(found[:, 0], kind="stable")]


def _common(first: Array, second: Array) -> Array:
    """Return what two lists of stretches, disjoint in themselves, have in common."""
    if not len(first) or not len(second):
        return np.empty((0, 2))
    edges = np.unique(np.concatenate([first.ravel(), second.ravel()]))
    middle = (edges[:-1] + edges[1:]) / 2
    inside = np.ones(len(middle), bool)
    for one in (first, second):
        place = np.searchsorted(one[:, 0], middle, side="right") - 1
        inside &= (place >= 0) & (middle < one[np.maximum(place, 0), 1])
    return np.column_stack([edges[:-1], edges[1:]])[inside]


def _within(stretches: Array, begin: Array, end: Array) -> Array:
    """Return how much of some stretches lies between begins and ends."""
    if not len(stretches):
        return np.zeros(len(begin))
    lengths = stretches[:, 1] - stretches[:, 0]
    # between two stretches the sum stands still
    sums = np.cumsum(np.column_stack([np.zeros(len(lengths)), lengths]).ravel())
    edges = stretches.ravel()
    found: Array = np.interp(end, edges, sums) - np.interp(begin, edges, sums)
    found[found < _ROUNDING * sums[-1]] = 0.0
    return found
