"""Reduce-scatter around a ring: every block travels once around and collects the operands on its way.

Block b starts at rank b + 1 and goes to the right for p - 1 rounds; every rank it comes to combines it
with its own operand. It ends at rank b, complete.

**Cost**: p - 1 rounds of one block of n bytes: ``(p-1) * (alpha + n*beta + n*gamma)``.

**Requires**: a commutative operator (each block's operands start at another rank).

**Properties**: volume and combinations are minimal; only neighbors talk, so no link is shared on a ring
or torus. The start-ups grow with p: for long messages.

**Reference**: P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of
workstations. JPDC 69(2), 2009. doi:10.1016/j.jpdc.2008.09.002

>>> cost(4, 200)
Cost(rounds=3, volume_bytes=600, reduced_bytes=600)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, Temporary, block

__all__ = ["ALGORITHM", "TEMPORARIES", "cost", "rounds"]

TEMPORARIES = (Temporary("partial", like="send"),)


def rounds(group: Group) -> Iterator[Step]:
    """Yield p - 1 steps; in the last one everybody's own block arrives."""
    me, p = group.ranks, group.size
    left, right = (me - 1) % p, (me + 1) % p
    if p == 1:
        yield group.copy(block("send"), block("recv"))
    for i in range(1, p):
        arriving = block("recv") if i == p - 1 else block("partial", me - i - 1)
        yield group.irecv(arriving, left, label=i % 2)
        if i > 1:
            yield group.wait(label=(i - 1) % 2)
            yield group.combine(block("send", me - i), block("partial", me - i), source_first=False)
        yield group.send(block("send" if i == 1 else "partial", me - i), right)
    if p > 1:
        yield group.wait() + group.combine(block("send", me), block("recv"), source_first=False)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "ring",
    "reduce_scatter_block",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    temporaries=TEMPORARIES,
)
