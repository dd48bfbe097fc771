"""Allreduce by recursive doubling: partners exchange their sums; each round doubles what a sum covers.

Needs: p = 1, 2, 4, 8, ... ranks, and an operation that is associative. Promises: all have the values combined
in the order of the ranks after log2 p rounds of one message a rank.
"""

from collections.abc import Callable
from operator import add
from typing import Any


def recursive_doubling(comm: Any, value: Any, op: Callable[[Any, Any], Any] = add) -> Any:
    """Return all values combined, on every rank."""
    if comm.size & (comm.size - 1):
        raise ValueError(f"recursive doubling needs 1, 2, 4, 8, ... ranks, got {comm.size}")
    distance = 1
    while distance < comm.size:
        partner = comm.rank ^ distance  # the rank whose number differs in one bit
        theirs = comm.sendrecv(value, dest=partner, source=partner)
        value = op(value, theirs) if comm.rank < partner else op(theirs, value)
        distance *= 2
    return value
