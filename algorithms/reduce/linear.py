"""Reduction at the root: it receives from rank 0, 1, 2, ... and combines in that order.

With the switch `last_first` it receives from the last rank, the last but one, ..., and combines from right to
left, as Open MPI and MPICH do.

**Cost**: p - 1 messages and combinations one after another: ``(p - 1) * (alpha + n*beta + n*gamma)``.

**Requires**: nothing; any number of ranks, any root, any associative operator. Parameter: `last_first`.

**Properties**: the baseline; operands in rank order, combined from left to right (the one order that
users expect of floating-point sums).

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=400)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block

__all__ = ["ALGORITHM", "cost", "rounds"]

OPERAND, INCOMING, RESULT = block("send"), block("incoming"), block("recv")


def rounds(group: Group, last_first: int = 0) -> Iterator[Step]:
    """Yield the sends of all, then what the root does for each rank in turn."""
    yield group.send(OPERAND, to=group.root, where=group.ranks != group.root)
    root, ranks = group.at_root(), range(group.size)[:: -1 if last_first else 1]
    for source in ranks if root else ():
        is_own = source == group.root
        if source == ranks[0]:
            yield root.copy(OPERAND, RESULT) if is_own else root.recv(RESULT, source)
        elif is_own:
            yield root.combine(OPERAND, RESULT, source_first=last_first > 0)
        else:
            yield root.recv(INCOMING, source)
            yield root.combine(INCOMING, RESULT, source_first=last_first > 0)


def cost(ranks: int, n_bytes: float, last_first: int = 0) -> Cost:
    """Return the exact cost: everything goes through the root."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "linear",
    "reduce",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("incoming", like="recv"),),
    parameters={"last_first": 0},
)
