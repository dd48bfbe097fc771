"""Exclusive prefix sums in one go: every rank sends its operand to all ranks behind it.

Rank r posts receives from 0, 1, ..., r - 1 and sends to r + 1, ..., p - 1, waits for all of them, and
combines what has come.

**Cost**: p - 1 messages through every port, and p - 2 combinations at the last rank:
``(p-1) * (alpha + n*beta) + (p-2)*n*gamma``; all start-ups at the same time.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: one round where start-ups are free; p*(p-1)/2 messages in all, and p - 1 work buffers;
operands in rank order. Rank 0's result is undefined. What SimGrid's SMPI does.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=300)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.reduce.flat import from_all
from labkit.algorithms.scan.spreading import exchange
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the exchange, then the combinations in rank order."""
    me, p = group.ranks, group.size
    yield from exchange(group)
    yield group.copy(block("from0"), block("recv"), where=me > 0)
    for source in range(1, p - 1):
        yield group.combine(block(f"from{source}"), block("recv"), source_first=False, where=me > source)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: the last rank receives and combines all."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes, max(ranks - 2, 0) * n_bytes)


ALGORITHM = Algorithm("spreading", "exscan", schedule=rounds, cost=cost, temporaries=from_all)
