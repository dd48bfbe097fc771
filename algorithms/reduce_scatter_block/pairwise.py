"""Reduce-scatter by pairwise exchange: in each round everyone sends one operand to the rank that needs it.

In round i = 1 ... p - 1 rank r sends its operand of block r + i to rank r + i and combines the operand of
its own block that comes from r - i, always in front of what is there. If the operator does not commute,
that is right for the ranks below r, which come first, from r - 1 down to 0; what comes from the ranks
above, from p - 1 down to r + 1, is collected apart and put behind the rest at the end.

**Cost**: p - 1 rounds of one block of n bytes: ``(p-1) * (alpha + n*beta + n*gamma)``; ``n*gamma`` more for
an operator that does not commute (p > 2).

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: minimal volume; operands in rank order for operators that do not commute; every message is
an operand as its rank gave it. The start-ups grow with p: for long messages.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521 (there for commutative operators)

>>> cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=400)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block

__all__ = ["ALGORITHM", "TEMPORARIES", "cost", "rounds"]

TEMPORARIES = (Temporary("incoming", like="recv"), Temporary("above", like="recv"))

RESULT, INCOMING, ABOVE = block("recv"), block("incoming"), block("above")


def rounds(group: Group) -> Iterator[Step]:
    """Yield p - 1 exchanges, then the step that joins the two partial results."""
    me, p = group.ranks, group.size
    yield group.copy(block("send", me), RESULT)
    for i in range(1, p):
        to, source = (me + i) % p, (me - i) % p
        is_in_front = (source < me) | group.commutative
        is_first_above = ~is_in_front & (source == p - 1)
        is_later_above = ~is_in_front & (source < p - 1)
        yield (
            group.isend(block("send", to), to)
            + group.irecv(ABOVE, source, where=is_first_above)
            + group.irecv(INCOMING, source, where=~is_first_above)
            + group.wait()
            + group.combine(INCOMING, RESULT, source_first=True, where=is_in_front)
            + group.combine(INCOMING, ABOVE, source_first=True, where=is_later_above)
        )
    if not group.commutative:
        yield group.combine(ABOVE, RESULT, source_first=False, where=me < p - 1)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("pairwise", "reduce_scatter_block", schedule=rounds, cost=cost, temporaries=TEMPORARIES)
