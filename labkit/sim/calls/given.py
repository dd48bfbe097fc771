"""The bytes that a rank gives to a collective that it calls."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from labkit.comm.buffers import parse_simple, parse_vector, parse_vector_w
from labkit.comm.collective.makers import maker_of
from labkit.comm.handles.special import is_in_place
from labkit.comm.surface import Method
from labkit.schedule.problem import PROBLEMS
from labkit.trace.recorder.collectives import OF_BLOCKS, PLAIN, sent_bytes

__all__ = ["given_bytes"]


def given_bytes(method: Method, comm: Any, arguments: tuple[Any, ...]) -> int:
    """Return the bytes that the rank gives; of objects they are counted when they are pickled."""
    if method.problem in PLAIN and type(arguments[0]) is np.ndarray:  # most calls, at once
        size: int = arguments[0].nbytes // (comm.size if method.problem in OF_BLOCKS else 1)
        return size
    return _by_layout(method, comm, arguments)


def _by_layout(method: Method, comm: Any, arguments: tuple[Any, ...]) -> int:
    """Return the bytes that the rank gives; of objects they are counted when they are pickled."""
    if not (method.is_buffer and arguments):
        return 0
    given = arguments[1] if is_in_place(arguments[0]) else arguments[0]
    with contextlib.suppress(Exception):  # the call itself says what is wrong with it
        if method.kind == "neighbor":
            return _to_neighbors(method.base, given, len(comm.inoutedges[1]))
        if method.base == "Reduce_scatter":  # without counts the ranks would ask each other
            return parse_simple(given, False).bytes
        problem = PROBLEMS[method.problem]
        call = maker_of(method)(comm, problem, method.name, *arguments)
        if problem.layout == "table":  # its `bytes` are what the choice of the algorithm goes by
            call.bytes = 0
            call.buffers = call.buffers[::-1] if problem.name == "scatterv" else call.buffers
        return sent_bytes(call)
    return 0


def _to_neighbors(base: str, given: Any, targets: int) -> int:
    if base.startswith("Neighbor_allgather"):
        return parse_simple(given, False).bytes * targets
    if base == "Neighbor_alltoall":
        return parse_simple(given, False).bytes
    table = (parse_vector if base.endswith("v") else parse_vector_w)(given, False, targets)
    return int(table.counts.sum()) * table.element_bytes
