"""Allreduce without partial results on the way: all operands go to all ranks, which combine them.

The operands travel around a ring, whole; every rank combines each of them with its own sum when it has passed
it on (two buffers take turns).

**Cost**: ``(p-1) * (alpha + n*beta)``, and ``(p-1)*n*gamma`` beside it: a sum is made while the next
operand is on its way.

**Requires**: a commutative operator; any number of ranks.

**Properties**: p/2 times the ring's volume: only for very short messages and few ranks.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 800)
Cost(rounds=7, volume_bytes=5600, reduced_bytes=5600)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, Temporary, block

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield p - 1 steps around the ring."""
    me, p = group.ranks, group.size
    left, right = (me - 1) % p, (me + 1) % p
    total, buffers = block("recv"), (block("incoming"), block("incoming2"))
    yield group.copy(block("send"), total)
    passed = block("send")
    for i in range(p - 1):
        arriving = buffers[i % 2]
        yield group.isend(passed, right) + group.irecv(arriving, left)
        if i:
            yield group.combine(passed, total)
        yield group.wait()
        passed = arriving
    if p > 1:
        yield group.combine(passed, total)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost (a bound: combining overlaps with messages)."""
    n = (ranks - 1) * n_bytes
    return Cost(ranks - 1, n, n, is_bound=True)


ALGORITHM = Algorithm(
    "allgather_reduce",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    temporaries=(Temporary("incoming"), Temporary("incoming2")),
)
