"""Reduction in one go: every rank sends its operand to the root, which has posted all receives.

**Cost**: p - 1 messages through the root's port, and as many combinations:
``(p - 1) * (alpha + n*beta + n*gamma)``; all start-ups at the same time.

**Requires**: nothing; any number of ranks, any root, any associative operator.

**Properties**: one round where start-ups are free, and p - 1 work buffers at the root; operands in rank
order, combined from left to right. What SimGrid's SMPI does.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=400)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Section, Step, Temporary, whole

__all__ = ["ALGORITHM", "cost", "from_all", "gathered", "rounds"]


def from_all(ranks: int) -> tuple[Temporary, ...]:
    """Return a work buffer for the operand of each rank."""
    return tuple(Temporary(f"from{rank}", like="send") for rank in range(ranks))


def gathered(group: Group, result: Section, root: int) -> Iterator[Step]:
    """Yield the root's receives and all sends, then the combinations in rank order into the root's result."""
    me = group.ranks
    others = [rank for rank in range(group.size) if rank != root]
    for source in others:
        yield group.irecv(whole(f"from{source}"), source, where=me == root)
    yield group.send(whole("send"), to=root, where=me != root)
    yield group.wait(where=(me == root) & (group.size > 1))
    for rank in range(group.size):
        operand = whole("send" if rank == root else f"from{rank}")
        if rank == 0:
            yield group.copy(operand, result, where=me == root)
        else:
            yield group.combine(operand, result, source_first=False, where=me == root)


def rounds(group: Group) -> Iterator[Step]:
    """Yield the messages to the root, then what it combines."""
    yield from gathered(group, whole("recv"), group.root)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: everything goes through the root."""
    return Cost(ranks - 1, (ranks - 1) * n_bytes, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("flat", "reduce", schedule=rounds, cost=cost, temporaries=from_all)
