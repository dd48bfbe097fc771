"""Alltoall by pairwise exchange: in round i everybody sends i ranks to the right and hears from the left.

Needs: a list of p blocks, block j for rank j. Promises: rank r has block r of every rank, in the order of the
ranks, after p - 1 rounds of one message a rank; in no round two ranks send to the same one.
"""

from typing import Any


def pairwise(comm: Any, blocks: list[Any]) -> list[Any]:
    """Return what every rank has for this one."""
    p, me = comm.size, comm.rank
    mine = [None] * p
    mine[me] = blocks[me]
    for i in range(1, p):
        to, source = (me + i) % p, (me - i) % p
        mine[source] = comm.sendrecv(blocks[to], dest=to, source=source)
    return mine
