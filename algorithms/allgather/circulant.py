"""Allgather over a circulant graph: the reduce-scatter of the same name backwards.

With the skips 1, ..., ceil(p/4), ceil(p/2), p a rank that holds the h blocks from its own on sends the first
ones to the rank h before it and receives as many from the rank h further on, until it holds as many as the
next skip. Bruck's algorithm doubles, and sends what is left over in its last round; here every round is as
even as p allows.

**Cost**: ``ceil(log2 p)*alpha + (p-1)*n*beta``, for every p, with blocks of n bytes.

**Requires**: nothing; any number of ranks.

**Properties**: minimal rounds and volume for every p; no rotation at the end.

**Reference**: J. L. Träff: Optimal, non-pipelined reduce-scatter and allreduce algorithms. 2024.
doi:10.48550/arXiv.2410.14234

>>> cost(5, 100)
Cost(rounds=3, volume_bytes=400, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from labkit.algorithms.bcast.circulant import skips
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block, blocks
from labkit.schedule.doubling import ceil_log2

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each skip."""
    me, p = group.ranks, group.size
    yield group.copy(block("send"), block("recv", me))
    for held, after in pairwise(skips(p)):
        known, new = blocks("recv", me, after - held), blocks("recv", me + held, after - held)
        yield group.sendrecv(known, (me - held) % p, new, (me + held) % p)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ceil_log2(ranks), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("circulant", "allgather", schedule=rounds, cost=cost)
