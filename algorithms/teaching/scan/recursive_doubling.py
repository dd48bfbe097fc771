"""Prefix sums by recursive doubling: each round doubles the number of ranks that my sum covers.

Needs: an operation that is associative. Promises: rank r has the values of the ranks 0 to r combined in their
order, after ceil(log2 p) rounds.
"""

from collections.abc import Callable
from operator import add
from typing import Any


def recursive_doubling(comm: Any, value: Any, op: Callable[[Any, Any], Any] = add) -> Any:
    """Return the values of all ranks up to this one, combined."""
    distance = 1
    while distance < comm.size:
        request = None
        if comm.rank + distance < comm.size:  # my last `distance` ranks are what this one lacks
            request = comm.isend(value, dest=comm.rank + distance)
        if comm.rank >= distance:
            value = op(comm.recv(source=comm.rank - distance), value)
        if request:
            request.wait()
        distance *= 2
    return value
