"""Collective calls as actions of a time-independent trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.comm.collective.native import Bound, Call
from labkit.errors import UnsupportedError
from labkit.schedule.problem import PROBLEMS, Problem

__all__ = ["action_of", "group_line", "phase_line"]

#: bytes of an element -> number of a datatype of that size (double, int, short, byte, complex)
_DATATYPES = {8: 0, 4: 1, 2: 3, 1: 6, 16: 26, 32: 27}


def action_of(call: Call, ranks: int, rank: int, context: int) -> str:
    """Write a collective call as the action of SimGrid's text, without the rank at its begin."""
    problem = PROBLEMS[call.problem]
    if problem.action is None:
        raise UnsupportedError(
            f"{call.name} cannot be recorded: a time-independent trace has no such collective; run without "
            "the recording"
        )
    words = [problem.action, *_sizes(problem, call, ranks, rank)]
    if problem.is_reduction and not call.is_commutative:
        words.append("order=fixed")
    if problem.is_reduction and not call.is_cuttable:
        words.append("cut=no")
    if context:
        words.append(f"comm={context}")
    return " ".join(map(str, words))


def _sizes(problem: Problem, call: Call, ranks: int, rank: int) -> list[Any]:
    """Return the words between a collective's name and its options."""
    if not problem.shapes:
        return []
    root = [call.root] if problem.is_rooted else []
    if problem.layout == "split":
        return _split(problem, call, root)
    first = call.buffers[0]
    if problem.is_reduction:
        block = first.elements * first.element_bytes
        return [*(_table(first) if problem.layout == "table" else [block] * ranks), 0, 6]
    if problem.layout == "uniform":
        return [call.bytes, call.bytes, *root, 6, 6]
    sizes = [
        _table(buffer) if rank == call.root or name not in problem.at_root else [0] * ranks
        for name, buffer in zip(problem.shapes, call.buffers, strict=True)
    ]
    if set(problem.shapes.values()) == {"all"}:  # the format wants the sums, too
        sizes = [[sum(counts), *counts] for counts in sizes]
    return [*sizes[0], *sizes[1], *root, 6, 6]


def _split(problem: Problem, call: Call, root: list[int]) -> list[Any]:
    """Write a message that the algorithm may cut between elements."""
    message = call.buffers[0]
    count, datatype, cut = message.elements, _DATATYPES.get(message.element_bytes), []
    if datatype is None:
        count, datatype, cut = count * message.element_bytes, 6, [f"element={message.element_bytes}"]
    flops = [0] if problem.is_reduction else []
    return [count, *flops, *root, datatype, *cut]


def _table(buffer: Bound) -> list[int]:
    counts: list[int] = (np.asarray(buffer.counts) * buffer.element_bytes).tolist()
    return counts


def group_line(context: int, members: list[int]) -> str:
    """Write the line that declares a communicator: its members' world ranks, evenly spaced ones as a range.

    Examples
    --------
    >>> group_line(4, [0, 2, 4, 6, 9])
    'comm 4 0-6:2,9'
    """
    parts = []
    begin = 0
    while begin < len(members):
        end = begin + 1
        stride = members[end] - members[begin] if end < len(members) else 0
        while stride > 0 and end + 1 < len(members) and members[end + 1] - members[end] == stride:
            end += 1
        if stride > 0 and end - begin >= 2:
            parts.append(f"{members[begin]}-{members[end]}" + (f":{stride}" if stride > 1 else ""))
            begin = end + 1
        else:
            parts.append(str(members[begin]))
            begin += 1
    return f"comm {context} {','.join(parts)}"


def phase_line(rank: int, name: str, is_begin: bool) -> str:
    """Write the line that tells where a rank enters or leaves a phase.

    Examples
    --------
    >>> phase_line(3, "local sort", True)
    '3 phase begin local sort'
    """
    return f"{rank} phase {'begin' if is_begin else 'end'} {' '.join(name.split()) or '?'}"
