"""Reduce-scatter by a butterfly: recursive halving with neighbours first, so that operands keep their order.

In the round with distance d = 1, 2, 4, ... the partners r and r XOR d give each other the blocks whose
numbers end like the other's number in the last bits, and combine those that they keep, the lower rank's
operand first: a partial result always covers consecutive ranks, and the blocks left are every second,
every fourth, ... If p is no power of two, the first 2*(p - q) ranks fold in pairs before (q the largest
power of two in p, e = p - q), and the owners of the finished blocks send them home.

**Cost**: k rounds for p = q = 2**k blocks of n bytes: ``k*alpha + (p-1)*n*(beta + gamma)``. Otherwise the
rounds carry ``sum over d of ceil(p/2d)`` blocks, and fold and delivery add
``3*alpha + (p+2)*n*beta + p*n*gamma``.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: minimal volume in the fewest rounds for powers of two; operands in rank order. Messages
gather every 2d-th block.

**Reference**: J. L. Träff: An improved algorithm for (non-commutative) reduce-scatter with an application.
EuroPVM/MPI 2005, LNCS 3666. doi:10.1007/11557265_20

>>> cost(8, 100), cost(5, 100).rounds
(Cost(rounds=3, volume_bytes=700, reduced_bytes=700), 5)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block, blocks, whole
from labkit.schedule.core import Core, core_of
from labkit.schedule.powers import doublings, floor_power_of_two
from labkit.schedule.team import everyone

__all__ = ["ALGORITHM", "TEMPORARIES", "cost", "rounds"]

TEMPORARIES = (Temporary("partial", like="send"), Temporary("incoming", like="send"))


def rounds(group: Group) -> Iterator[Step]:
    """Yield fold, one step for each distance, delivery."""
    me, p = group.ranks, group.size
    core = core_of(everyone(group))
    yield group.copy(whole("send"), whole("partial"), where=~core.is_out)
    yield (
        group.send(whole("send"), to=core.neighbor, where=core.is_out)
        + group.recv(whole("incoming"), source=core.neighbor, where=core.has_out)
        + group.combine(whole("incoming"), whole("partial"), source_first=True, where=core.has_out)
    )
    number = core.number
    for distance in doublings(core.size):
        partner = number ^ distance
        peer = core.team_number(partner)
        kept, given, stride = number % (2 * distance), partner % (2 * distance), 2 * distance
        yield group.sendrecv(
            blocks("partial", given, p - given, 1, stride),
            peer,
            blocks("incoming", kept, p - kept, 1, stride),
            peer,
            where=~core.is_out,
        ) + group.combine(
            blocks("incoming", kept, p - kept, 1, stride),
            blocks("partial", kept, p - kept, 1, stride),
            source_first=peer < me,
            where=~core.is_out,
        )
    yield from _delivery(group, core)


def _delivery(group: Group, core: Core) -> Iterator[Step]:
    """Bring block b from core rank b mod q to rank b."""
    me, number, is_in = group.ranks, core.number, ~core.is_out
    if core.extra == 0:
        yield group.copy(block("partial", me), block("recv"))
        return
    second = number + core.size
    yield (
        group.irecv(block("recv"), core.team_number(me % core.size))
        + group.isend(block("partial", number), to=number, where=is_in)
        + group.isend(block("partial", second), to=second, where=is_in & (number < core.extra))
        + group.wait()
    )


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    core = floor_power_of_two(ranks)
    distances = doublings(core)
    halves = sum(-(-ranks // (2 * distance)) for distance in distances)
    if core == ranks:
        return Cost(len(distances), halves * n_bytes, halves * n_bytes)
    return Cost(len(distances) + 3, (halves + ranks + 2) * n_bytes, (halves + ranks) * n_bytes)


ALGORITHM = Algorithm(
    "butterfly", "reduce_scatter_block", schedule=rounds, cost=cost, temporaries=TEMPORARIES
)
