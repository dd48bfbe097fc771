"""Exclusive prefix sums along a chain: take what the left sends, add your own, tell the right.

**Cost**: p - 1 rounds of n bytes, of which all but the last are combined:
``(p-1) * (alpha + n*beta) + (p-2)*n*gamma``.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: the baseline, with the fewest messages in all; operands in rank order, combined from left
to right. Rank 0's result is undefined.

**Reference**: P. Sanders, J. L. Träff: Parallel prefix (scan) algorithms for MPI. EuroPVM/MPI 2006, LNCS
4192. doi:10.1007/11846802_15

>>> cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=300)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block

__all__ = ["ALGORITHM", "cost", "rounds"]

RESULT, OUTGOING = block("recv"), block("outgoing")


def rounds(group: Group) -> Iterator[Step]:
    """Yield the one step everyone does."""
    me, p = group.ranks, group.size
    is_inner, has_right = (me > 0) & (me + 1 < p), me + 1 < p
    yield (
        group.recv(RESULT, source=me - 1, where=me > 0)
        + group.copy(block("send"), OUTGOING, where=has_right)
        + group.combine(RESULT, OUTGOING, source_first=True, where=is_inner)
        + group.send(OUTGOING, to=me + 1, where=has_right)
    )


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: the message passes every rank."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes, max(ranks - 2, 0) * n_bytes)


ALGORITHM = Algorithm("linear", "exscan", schedule=rounds, cost=cost, temporaries=("outgoing",))
