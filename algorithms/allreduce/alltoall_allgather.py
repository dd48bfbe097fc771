"""Allreduce as alltoall, local sums, and allgather.

The message is cut into p blocks. In round i = 1 ... p - 1 rank r sends its operand of block r + i to rank r
+ i, and combines that of its own block from r - i (mod p): block r is complete at rank r. Then the blocks
travel around a ring.

**Cost**: ``2(p-1)*alpha + 2(p-1)/p*n*beta + (p-1)/p*n*gamma``.

**Requires**: a commutative operator; any number of ranks.

**Properties**: every operand goes straight to the rank that combines it.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> cost(8, 800)
Cost(rounds=14, volume_bytes=1400.0, reduced_bytes=700.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, block, whole
from labkit.schedule.group import everyone
from labkit.schedule.phases import pass_around

__all__ = ["ALGORITHM", "cost", "rounds"]


def parts_of_message(ranks: int) -> int:
    """Return p: a block for each rank."""
    return ranks


def rounds(group: Group) -> Iterator[Step]:
    """Yield p - 1 exchanges that combine, then p - 1 steps around the ring."""
    me, p = group.ranks, group.size
    yield group.copy(whole("send"), whole("recv"))
    for i in range(1, p):
        to, source = (me + i) % p, (me - i) % p
        yield group.sendrecv(block("send", to), to, block("incoming", me), source)
        yield group.combine(block("incoming", me), block("recv", me))
    yield from pass_around(everyone(group), lambda number: block("recv", number))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost when p divides the message."""
    volume = (ranks - 1) * n_bytes / ranks
    return Cost(2 * (ranks - 1), 2 * volume, volume)


ALGORITHM = Algorithm(
    "alltoall_allgather",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=parts_of_message,
    temporaries=("incoming",),
)
