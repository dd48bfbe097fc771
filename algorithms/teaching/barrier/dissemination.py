"""Barrier by dissemination: everybody tells ranks ever farther to the right who has come so far.

Needs: nothing. Promises: nobody leaves before everybody has come; ceil(log2 p) rounds of one message a rank.
"""

from typing import Any


def dissemination(comm: Any) -> None:
    """Return when all ranks have called."""
    p, me = comm.size, comm.rank
    distance = 1
    while distance < p:
        comm.sendrecv(None, dest=(me + distance) % p, source=(me - distance) % p)
        distance *= 2
