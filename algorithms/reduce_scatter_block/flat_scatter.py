"""Reduce-scatter as a flat reduction and a scatter: all send everything to rank 0, which sends the blocks.

**Cost**: p - 1 messages of p blocks of n bytes, then p - 1 of one block:
``(p-1) * (alpha + p*n*(beta + gamma)) + (p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: operands in rank order; rank 0 has all the work, and p work buffers as large as all blocks.
What SimGrid's SMPI does.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(4, 100)
Cost(rounds=6, volume_bytes=1500, reduced_bytes=1200)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.reduce.flat import from_all, gathered
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block, whole

__all__ = ["ALGORITHM", "cost", "rounds"]


def _temporaries(ranks: int) -> tuple[Temporary, ...]:
    return (Temporary("partial", like="send"), *from_all(ranks))


def rounds(group: Group) -> Iterator[Step]:
    """Yield the messages to rank 0 and what it combines, then its messages."""
    me, p = group.ranks, group.size
    yield from gathered(group, whole("partial"), 0)
    yield group.copy(block("partial"), block("recv"), where=me == 0)
    for target in range(1, p):
        yield group.isend(block("partial", target), to=target, where=me == 0)
    yield group.recv(block("recv"), source=0, where=me > 0) + group.wait(where=me == 0)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    messages, everything = ranks - 1, ranks * n_bytes
    return Cost(2 * messages, messages * (everything + n_bytes), messages * everything)


ALGORITHM = Algorithm(
    "flat_scatter", "reduce_scatter_block", schedule=rounds, cost=cost,
    temporaries=_temporaries,
)  # fmt: skip
