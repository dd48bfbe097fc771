"""Reduction up a binomial tree: pairs of partial results are combined until one is left.

Ranks are numbered from the tree's root on. In the round with distance d = 1, 2, 4, ... every rank whose
number is an odd multiple of d sends its partial result to the rank d before it, which appends it to its
own: a partial result always covers consecutive ranks. If the operator commutes the tree starts at the
root; if not, it starts at rank 0, so that operands stay in rank order, and rank 0 passes the result on.

**Cost**: ceil(log2 p) rounds of n bytes, each combined: ``ceil(log2 p) * (alpha + n*beta + n*gamma)``
for every p; one message more for an operator that does not commute and a root other than 0.

**Requires**: nothing; any number of ranks, any root, any associative operator.

**Properties**: optimal in rounds; operands in rank order for operators that do not commute.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(6, 100)
Cost(rounds=3, volume_bytes=300, reduced_bytes=300)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block
from labkit.schedule.doubling import ceil_log2, doublings

__all__ = ["ALGORITHM", "cost", "rounds"]

PARTIAL, INCOMING, RESULT = block("partial"), block("incoming"), block("recv")


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each level of the tree, from the leaves up, then bring the result home."""
    me, p, root = group.ranks, group.size, group.root
    top = root if group.commutative else 0
    number = (me - top) % p
    yield group.copy(block("send"), PARTIAL)
    for distance in doublings(p):
        is_child = number % (2 * distance) == distance
        is_parent = (number % (2 * distance) == 0) & (number + distance < p)
        yield (
            group.send(PARTIAL, to=(me - distance) % p, where=is_child)
            + group.recv(INCOMING, source=(me + distance) % p, where=is_parent)
            + group.combine(INCOMING, PARTIAL, source_first=False, where=is_parent)
        )
    if top == root:
        yield group.copy(PARTIAL, RESULT, where=me == root)
    else:
        yield group.send(PARTIAL, to=root, where=me == top) + group.recv(RESULT, source=top, where=me == root)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: ceil(log2 p) messages and combinations one after another."""
    levels = ceil_log2(ranks)
    return Cost(levels, levels * n_bytes, levels * n_bytes)


ALGORITHM = Algorithm(
    "binomial",
    "reduce",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("partial", like="send"), Temporary("incoming", like="send")),
)
