"""Allreduce as a flat reduction and a broadcast: all send to rank 0, which sends down a binomial tree.

**Cost**: with L = ceil(log2 p): ``(p - 1 + L) * (alpha + n*beta) + (p - 1)*n*gamma``.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: p - 1 work buffers at rank 0; operands in rank order, and all ranks get the result of the same
combinations. What SimGrid's SMPI does.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 800)
Cost(rounds=10, volume_bytes=8000, reduced_bytes=5600)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.reduce.flat import from_all, gathered
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import ceil_log2
from labkit.schedule.group import everyone
from labkit.schedule.phases import down
from labkit.schedule.trees import knomial

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the messages to rank 0 and what it combines, then the way down."""
    yield from gathered(group, block("recv"), 0)
    yield from down(everyone(group), knomial(group.size, 2), lambda part: block("recv"), is_posted=False)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: rank 0 receives all, then the levels of the tree."""
    messages = ranks - 1 + ceil_log2(ranks)
    return Cost(messages, messages * n_bytes, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "flat_bcast",
    "allreduce",
    schedule=rounds,
    cost=cost,
    temporaries=from_all,
)
