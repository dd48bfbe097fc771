"""Reduce-scatter over circulant graphs: few rounds and minimal volume for any number of ranks.

Rank r first works on all blocks, then on the s that begin with its own, s = ceil(p/2), ceil(p/4), ..., 1.
In a round from s to h = ceil(s/2) it sends those beyond, r + h ... r + s - 1, to rank r + h, and combines
what comes from r - h.

**Cost**: ``ceil(log2 p)*alpha + (p-1)*n*(beta + gamma)``, for every p.

**Requires**: a commutative operator; any number of ranks.

**Properties**: optimal in rounds, volume and combinations for every p; messages may wrap around.

**Reference**: J. L. Träff: Optimal, non-pipelined reduce-scatter and allreduce algorithms. 2024.
doi:10.48550/arXiv.2410.14234

>>> cost(5, 800)
Cost(rounds=3, volume_bytes=3200, reduced_bytes=3200)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allreduce.circulant import skips
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, Temporary, block, blocks, whole
from labkit.schedule.doubling import ceil_log2

__all__ = ["ALGORITHM", "cost", "rounds"]


TEMPORARIES = (Temporary("partial", like="send"), Temporary("incoming", like="send"))


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each halving."""
    me, p = group.ranks, group.size
    yield group.copy(whole("send"), whole("partial"))
    for span, hop in skips(p):
        received, kept = blocks("incoming", me, span - hop), blocks("partial", me, span - hop)
        yield group.sendrecv(
            blocks("partial", me + hop, span - hop), (me + hop) % p, received, (me - hop) % p
        )
        yield group.combine(received, kept)
    yield group.copy(block("partial", me), block("recv"))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    n = (ranks - 1) * n_bytes
    return Cost(ceil_log2(ranks), n, n)


ALGORITHM = Algorithm(
    "circulant",
    "reduce_scatter_block",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    temporaries=TEMPORARIES,
)
