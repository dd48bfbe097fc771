"""Gather up a binomial tree: in every round half of those who are left hand over all they have, and go.

Needs: nothing. Promises: the root has the list of all values, in the order of the ranks, after ceil(log2 p)
rounds and p - 1 messages; the others have None.
"""

from typing import Any


def binomial(comm: Any, value: Any, root: int = 0) -> list[Any] | None:
    """Return the list of all ranks' values, at the root."""
    p = comm.size
    me = (comm.rank - root) % p
    collected = [value]  # of the numbers me, me + 1, ...
    distance = 1
    while distance < p:
        if me % (2 * distance) == distance:
            comm.send(collected, dest=(comm.rank - distance) % p)
            return None
        if me + distance < p:
            collected += comm.recv(source=(comm.rank + distance) % p)
        distance *= 2
    return collected[p - root :] + collected[: p - root]  # from counting from the root to ranks
