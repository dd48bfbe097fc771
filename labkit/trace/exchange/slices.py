"""Slices of the ranks' time, one in the other as brackets: which lies in which, also at one instant."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from labkit.trace.phases import NOT_SAID

__all__ = ["CALL", "COMPUTATION", "PHASE", "WAIT", "nested"]

#: kinds of slices, from the outside to the inside
PHASE, CALL, COMPUTATION, WAIT = range(4)
_NONE = -1

Ints = NDArray[np.int64]


def nested(slices: dict[str, Ints]) -> tuple[dict[str, Ints], int]:
    """Put slices in order, by rank, each before those in it, and say how deep they lie.

    A call that takes no time lies in the phase that it names: the last before that ends at this instant, or
    the first of those that begin at it. Calls of a rank at one instant keep their order.

    Parameters
    ----------
    slices : dict of arrays
        rank, kind, name, begin_ns, end_ns, row, phase and around, an entry each: of a call the name of its
        innermost phase by number, -1 for none, `NOT_SAID`; of a phase how many are around it (then those of
        a rank come in the order in which it entered them, where they begin at once), `NOT_SAID`.

    Returns
    -------
    dict of arrays, int
        Without phase and around; with depth, and no slice ends after the one around it: how many did.
    """
    # Calls that take no time come before what begins just then, behind the phases that do.
    kind, begin, end = slices["kind"], slices["begin_ns"], slices["end_ns"]
    takes_time = (kind != PHASE) & (end > begin) | (kind == WAIT)
    inside = np.where(kind == PHASE, 0, 1 + takes_time)
    # Else phases are noted when they end: of two that begin and end at once the later is the outer one.
    is_told = slices["around"] != NOT_SAID
    noted = np.where((kind == PHASE) & (end > begin) & ~is_told, -1, 1) * np.arange(len(kind))
    order = np.lexsort((noted, kind, np.where(is_told, 0, -end), inside, begin, slices["rank"]))
    slices = {name: column[order] for name, column in slices.items()}
    places, around = _places(slices)
    order = np.argsort(places, kind="stable")
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    around = np.where(around >= 0, new[around], around)[order]
    slices = {name: column[order] for name, column in slices.items() if name not in ("phase", "around")}
    slices["depth"], slices["end_ns"], cut = _depths(slices, around)
    return slices, cut


def _places(slices: dict[str, Ints]) -> tuple[Ints, Ints]:
    """Return where each slice stands; and around each phase or call without time: `_NONE`, `NOT_SAID`."""
    kind, begin_ns, end_ns = slices["kind"], slices["begin_ns"], slices["end_ns"]
    places, around = 2 * np.arange(len(kind)), np.full(len(kind), NOT_SAID)
    rows = np.flatnonzero((kind == PHASE) | (kind == CALL) & (begin_ns == end_ns))
    names = np.where(kind == PHASE, slices["name"], slices["phase"])
    told = (slices["rank"], begin_ns, end_ns, kind, names, slices["around"])
    columns = (column[rows].tolist() for column in told)
    stack: list[tuple[int, int, int]] = []  # end, name, slice
    last = -1
    moments = groupby(zip(*columns, rows.tolist(), strict=True), key=lambda one: (one[0], one[1]))
    for (rank, now), group in moments:
        here = list(group)
        if rank != last:
            stack.clear()
            last = rank
        _leave(stack, now - 1, [])
        # What is innermost at this instant, one after the other: name, slice, the place behind.
        states = [(*_innermost(stack), 2 * here[0][-1] - 1)]
        calls = []
        for _, _, end, what, name, depth, at in here:
            if what == CALL:
                calls.append((name, at))
                continue
            # Only what takes no time lies in what ends just then.
            _leave(stack, now, states, max(depth, 0) if end == now else 0)
            if depth != NOT_SAID:
                around[at] = _innermost(stack)[1]
            stack.append((min(end, stack[-1][0]) if stack else end, name, at))
            states.append((name, at, 2 * at + 1))
        _leave(stack, now, states)
        first = 0
        for name, at in calls:
            first = next((i for i in range(first, len(states)) if states[i][0] == name), len(states))
            if first == len(states):  # nor may later ones come before it
                break
            _, around[at], places[at] = states[first]
    return places, around


def _leave(
    stack: list[tuple[int, int, int]], until: int, states: list[tuple[int, int, int]], depth: int = 0
) -> None:
    """Close phases that end until then, down to so many; what is innermost after each is added."""
    while len(stack) > depth and stack[-1][0] <= until:
        stack.pop()
        if states:
            states.append((*_innermost(stack), states[-1][-1]))


def _innermost(stack: list[tuple[int, int, int]]) -> tuple[int, int]:
    """Return name and slice of the innermost phase."""
    return stack[-1][1:] if stack else (_NONE, _NONE)


def _depths(slices: dict[str, Ints], around: Ints) -> tuple[Ints, Ints, int]:
    """Return the depth and the end of each slice, none after that of the one around it."""
    depths, ends, cut = [], [], 0
    stack: list[tuple[int, int, int, int]] = []  # end, begin, kind, slice
    last = -1
    columns = (slices[name].tolist() for name in ("rank", "kind", "begin_ns", "end_ns"))
    for at, (rank, kind, begin, end, phase) in enumerate(zip(*columns, around.tolist(), strict=True)):
        if rank != last:
            stack.clear()
            last = rank
        while stack and stack[-1][0] <= begin:
            over, begun, outer, number = stack[-1]
            is_in = begun == begin == end and outer < kind if phase == NOT_SAID else number == phase
            if over == begin and is_in:
                break
            stack.pop()
        if stack and stack[-1][0] < end:
            end = stack[-1][0]
            cut += 1
        depths.append(len(stack))
        ends.append(end)
        stack.append((end, begin, kind, at))
    return np.array(depths, np.int64), np.array(ends, np.int64), cut
