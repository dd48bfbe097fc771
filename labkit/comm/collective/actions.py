"""Collective calls as actions of a time-independent trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.comm.collective.native import Bound, Call

__all__ = ["action_of", "group_line", "phase_line"]

#: bytes of an element -> number of a datatype of that size (double, int, short, byte, complex)
_DATATYPES = {8: 0, 4: 1, 2: 3, 1: 6, 16: 26, 32: 27}
_SPLIT = ("bcast", "reduce", "allreduce", "scan", "exscan")
_REDUCTIONS = ("reduce", "allreduce", "scan", "exscan", "reduce_scatter", "reduce_scatter_block")


def action_of(call: Call, ranks: int, rank: int, context: int) -> str:
    """Write a collective call as the action of SimGrid's text, without the rank at its begin.

    Parameters
    ----------
    call : Call
    ranks : int
        Size of its communicator.
    rank : int
        The caller's rank in it.
    context : int
        Number of its communicator; 0: the world.

    Returns
    -------
    str
        Vector collectives count bytes, others elements. No flops: what a combination costs, the program
        charges itself.
    """
    words = _words(call, ranks, rank)
    if call.problem in _REDUCTIONS and not call.is_commutative:
        words.append("order=fixed")
    if call.problem in _REDUCTIONS and not call.is_cuttable:
        words.append("cut=no")
    if context:
        words.append(f"comm={context}")
    return " ".join(map(str, words))


def _words(call: Call, ranks: int, rank: int) -> list[Any]:
    problem = call.problem
    if problem == "barrier":
        return ["barrier"]
    if problem in _SPLIT:
        return _split(call)
    first, second = call.buffers
    if problem == "reduce_scatter_block":
        return ["reducescatter", *[first.elements * first.element_bytes] * ranks, 0, 6]
    if problem == "reduce_scatter":
        return ["reducescatter", *_table(first), 0, 6]
    if problem == "gatherv":
        counts = _table(second) if rank == call.root else [0] * ranks
        return ["gatherv", *_table(first), *counts, call.root, 6, 6]
    if problem == "scatterv":
        counts = _table(first) if rank == call.root else [0] * ranks
        return ["scatterv", *counts, *_table(second), call.root, 6, 6]
    if problem == "allgatherv":
        return ["allgatherv", *_table(first), *_table(second), 6, 6]
    if problem == "alltoallv":
        sent, received = _table(first), _table(second)
        return ["alltoallv", sum(sent), *sent, sum(received), *received, 6, 6]
    size = call.bytes
    root = [call.root] if problem in ("gather", "scatter") else []
    return [problem, size, size, *root, 6, 6]


def _split(call: Call) -> list[Any]:
    """Write a message that the algorithm may cut between elements."""
    message = call.buffers[0]
    count, datatype, cut = message.elements, _DATATYPES.get(message.element_bytes), []
    if datatype is None:
        count, datatype, cut = count * message.element_bytes, 6, [f"element={message.element_bytes}"]
    flops = [] if call.problem == "bcast" else [0]
    root = [call.root] if call.problem in ("bcast", "reduce") else []
    return [call.problem, count, *flops, *root, datatype, *cut]


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
