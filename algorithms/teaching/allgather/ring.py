"""Allgather around a ring: in every round each passes on to the right what came last from the left.

Needs: nothing. Promises: all have the list of all values, in the order of the ranks, after p - 1 rounds of
one message a rank.
"""

from typing import Any


def ring(comm: Any, value: Any) -> list[Any]:
    """Return the list of all ranks' values, on every rank."""
    p, me = comm.size, comm.rank
    everybody = [None] * p
    everybody[me] = value
    for i in range(1, p):
        value = comm.sendrecv(value, dest=(me + 1) % p, source=(me - 1) % p)
        everybody[(me - i) % p] = value  # it started i ranks to my left
    return everybody
