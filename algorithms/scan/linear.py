"""Inclusive prefix sums along a chain: wait for the left, add your own, tell the right.

**Cost**: p - 1 rounds of n bytes, each combined: ``(p-1) * (alpha + n*beta + n*gamma)``.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: the baseline, with the fewest messages and combinations in all (p - 1 each); operands in
rank order, combined from left to right.

**Reference**: P. Sanders, J. L. Träff: Parallel prefix (scan) algorithms for MPI. EuroPVM/MPI 2006, LNCS
4192. doi:10.1007/11846802_15

>>> cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=400)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block

__all__ = ["ALGORITHM", "cost", "rounds"]

RESULT, INCOMING = block("recv"), block("incoming")


def rounds(group: Group) -> Iterator[Step]:
    """Yield the one step everyone does."""
    me, p = group.ranks, group.size
    yield (
        group.copy(block("send"), RESULT)
        + group.recv(INCOMING, source=me - 1, where=me > 0)
        + group.combine(INCOMING, RESULT, source_first=True, where=me > 0)
        + group.send(RESULT, to=me + 1, where=me + 1 < p)
    )


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: the message passes every rank."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("linear", "scan", schedule=rounds, cost=cost, temporaries=("incoming",))
