"""Broadcast of long messages: a scatter, then an allgather around a ring.

The message is cut into p parts. A binomial tree brings part v to number v (counted from the root on); then
the parts travel around the ring until all have all.

**Cost**: ``(ceil(log2 p) + p - 1)*alpha + 2(p-1)/p*n*beta``, for every p.

**Requires**: nothing; any number of ranks, any root.

**Properties**: twice the message through every port, whatever p is, and between neighbors only in the
longer phase; the start-ups grow with p.

**Reference**: M. Barnett, S. Gupta, D. Payne, L. Shuler, R. van de Geijn, J. Watts: Interprocessor
collective communication library. Scalable High-Performance Computing Conference, 1994.
doi:10.1109/SHPCC.1994.296665

>>> cost(5, 100)
Cost(rounds=7, volume_bytes=160.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.bcast._scatter import scatter_parts
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import ceil_log2
from labkit.schedule.group import everyone
from labkit.schedule.phases import pass_around

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the scatter's levels, then p - 1 steps around the ring."""
    team = everyone(group, group.root)
    yield from scatter_parts(team, group.size)
    yield from pass_around(team, lambda number: block("data", number))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost when p divides the message: number 1 has its part last."""
    return Cost(ceil_log2(ranks) + ranks - 1, 2 * (ranks - 1) * n_bytes / ranks)


def parts_of_message(ranks: int) -> int:
    """Return p: a part for each rank."""
    return ranks


ALGORITHM = Algorithm("scatter_ring_allgather", "bcast", schedule=rounds, cost=cost, parts=parts_of_message)
