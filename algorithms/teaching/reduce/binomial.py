"""Reduction up a binomial tree: in every round half of those who are left hand their sum over, and go.

Needs: an operation that is associative. Promises: the root has all values combined in the order of the ranks
(counted from the root on) after ceil(log2 p) rounds and p - 1 messages; the others have None.
"""

from collections.abc import Callable
from operator import add
from typing import Any


def binomial(comm: Any, value: Any, op: Callable[[Any, Any], Any] = add, root: int = 0) -> Any:
    """Return all values combined, at the root."""
    p = comm.size
    me = (comm.rank - root) % p
    distance = 1
    while distance < p:
        if me % (2 * distance) == distance:  # hand over what I have, and go
            comm.send(value, dest=(comm.rank - distance) % p)
            return None
        if me + distance < p:  # what comes stands for the ranks after mine
            value = op(value, comm.recv(source=(comm.rank + distance) % p))
        distance *= 2
    return value
