"""Broadcast down a binomial tree: in every round, everybody who has the message sends it to one who has not.

Needs: nothing. Promises: all have the root's message after ceil(log2 p) rounds and p - 1 messages.
"""

from typing import Any


def binomial(comm: Any, message: Any = None, root: int = 0) -> Any:
    """Return the root's message on every rank."""
    p = comm.size
    me = (comm.rank - root) % p  # count from the root: it is number 0
    distance = 1
    while distance < p:
        distance *= 2
    while distance > 1:
        distance //= 2
        if me % (2 * distance) == 0 and me + distance < p:  # I have it: tell the one `distance` further on
            comm.send(message, dest=(comm.rank + distance) % p)
        elif me % (2 * distance) == distance:  # my turn to hear
            message = comm.recv(source=(comm.rank - distance) % p)
    return message
