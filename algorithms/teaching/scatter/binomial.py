"""Scatter down a binomial tree: everybody who has blocks of others hands over half of them in every round.

Needs: a list of p blocks at the root, block j for rank j. Promises: rank j has block j after ceil(log2 p)
rounds and p - 1 messages.
"""

from typing import Any


def binomial(comm: Any, blocks: list[Any] | None = None, root: int = 0) -> Any:
    """Return this rank's block of the root's list."""
    p = comm.size
    me = (comm.rank - root) % p
    mine = (blocks[root:] + blocks[:root]) if blocks and me == 0 else []  # of the numbers me, me + 1, ...
    distance = 1
    while distance < p:
        distance *= 2
    while distance > 1:
        distance //= 2
        if me % (2 * distance) == 0 and me + distance < p:
            comm.send(mine[distance:], dest=(comm.rank + distance) % p)
            mine = mine[:distance]
        elif me % (2 * distance) == distance:
            mine = comm.recv(source=(comm.rank - distance) % p)
    return mine[0]
