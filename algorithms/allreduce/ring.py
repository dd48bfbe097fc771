"""Allreduce around a ring: a reduce-scatter, then an allgather, both between neighbors only.

The message is cut into p blocks. For p - 1 rounds every rank passes a block to its right and combines the
block that arrives from its left: block b travels once around and is then complete at rank b - 1. For p - 1
more rounds the complete blocks travel around once more.

**Cost**: 2(p - 1) rounds of n/p bytes (the largest block, if p does not divide n):
``2(p-1)*alpha + 2(p-1)/p*n*beta + (p-1)/p*n*gamma``.

**Requires**: a commutative operator (each block's operands start at another rank).

**Properties**: volume and combinations are minimal; only neighbors talk, so no link is shared on a ring
or torus. The start-ups grow with p: for long messages.

**Reference**: P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of
workstations. JPDC 69(2), 2009. doi:10.1016/j.jpdc.2008.09.002

>>> cost(4, 800)
Cost(rounds=6, volume_bytes=1200.0, reduced_bytes=600.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, block, whole

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield p - 1 steps that combine, then p - 1 steps that only pass on."""
    me, p = group.ranks, group.size
    left, right = (me - 1) % p, (me + 1) % p
    yield group.copy(whole("send"), whole("recv"))
    for i in range(p - 1):
        passed, arriving = me - i, me - i - 1
        yield group.sendrecv(block("recv", passed), right, block("incoming", arriving), left) + group.combine(
            block("incoming", arriving), block("recv", arriving)
        )
    for i in range(p - 1):
        yield group.sendrecv(block("recv", me + 1 - i), right, block("recv", me - i), left)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost when p divides the message."""
    part = n_bytes / ranks
    return Cost(2 * (ranks - 1), 2 * (ranks - 1) * part, (ranks - 1) * part)


def blocks_of_message(ranks: int) -> int:
    """Return p: one block for each rank."""
    return ranks


ALGORITHM = Algorithm(
    "ring",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=blocks_of_message,
    temporaries=("incoming",),
)
